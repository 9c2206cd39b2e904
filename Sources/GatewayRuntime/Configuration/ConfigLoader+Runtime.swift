import GatewayConfiguration
import GatewayCore
import GatewayStrategies

/// The two ways in which the program reads a configuration: with its secrets, or for a command that may run where they are not.
extension ConfigLoader {
    /// As a gateway reads it: a variable that is not set is a mistake.
    static func running(
        _ files: any ConfigFileSource,
        _ secrets: some SecretSource,
        strictModes: Bool = false
    ) -> ConfigLoader {
        ConfigLoader(files: files, strictModes: strictModes, size: .ofProcess) { secrets.environment($0) }
    }

    /// A variable that is set counts; one that is not has a value that nothing is said about.
    static func unread(_ files: any ConfigFileSource, strictModes: Bool = false) -> ConfigLoader {
        let variables = SystemSecretSource()
        return ConfigLoader(files: files, placeholder: "unset", strictModes: strictModes, size: .ofProcess) {
            variables.environment($0)
        }
    }

    /// With the strategies and presets of the program.
    func plan(at path: String, secrets: any SecretSource) -> ConfigOutcome { plan(of: load(path), secrets: secrets) }

    func plan(of loading: Loading, secrets: any SecretSource) -> ConfigOutcome {
        plan(of: loading, catalog: .builtIn, presets: .builtIn, secrets: secrets)
    }
}

extension Result<ConfigurationSize, ConfigurationSize.Refusal> {
    /// As the environment of the program says.
    static var ofProcess: Self { ConfigurationSize.read(SystemSecretSource().environment) }
}
