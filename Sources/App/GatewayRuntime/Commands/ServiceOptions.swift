import GatewayCore

/// How a person wants a service to be written: what `add` and `init` take behind its name.
package struct ServiceOptions: Sendable {
    private let name: String?
    private let parameters: [String]
    private let secrets: [String]
    let upstream: String?

    /// - Parameters:
    ///   - name: Of the credential and the first route; nil takes that of the service.
    ///   - parameters: `NAME=VALUE`, each.
    ///   - secrets: Where secrets come from (``PresetSources``).
    ///   - upstream: The URL of a server that stands in for the preset's.
    package init(name: String?, parameters: [String], secrets: [String], upstream: String?) {
        self.name = name
        self.parameters = parameters
        self.secrets = secrets
        self.upstream = upstream
    }

    /// The name of the credential and the first route.
    func name(or standard: String) throws(CommandFailure) -> String {
        let name = name ?? standard
        guard ConfigName.isValid(name) else { throw CommandFailure(.usage, ConfigName.rule) }
        return name
    }

    /// What a preset writes.
    ///
    /// - Parameters:
    ///   - asks: On a terminal, for what the command line does not say.
    ///   - files: Take secrets that are pasted.
    func entries(
        of preset: Preset,
        asks: Bool,
        files: inout SecretFiles
    ) throws(CommandFailure) -> PresetEntries {
        let name = try name(or: preset.name)
        let values = try PresetParameters.values(parameters, of: preset, asks: asks && Self.canAsk)
        let sources = try sources(of: preset.needs, for: name, asks: asks, files: &files)
        return PresetEntries(preset, as: name, parameters: values, sources: sources, upstream: upstream)
    }

    /// Where secrets come from, in YAML, by the variable that stands for each.
    ///
    /// - Parameter name: Of the credential.
    func sources(
        of needs: [Preset.Need],
        for name: String,
        asks: Bool,
        files: inout SecretFiles
    ) throws(CommandFailure) -> [String: String] {
        try PresetSources(secrets, for: needs).yaml(for: needs, asks: asks && Self.canAsk, as: name, files: &files)
    }

    /// There is a terminal, to ask and to answer.
    static var canAsk: Bool { Console.isInputTerminal && Console.isErrorTerminal }
}
