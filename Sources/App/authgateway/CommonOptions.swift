import ArgumentParser
import GatewayRuntime

/// Which gateway is meant.
struct ConfigOption: ParsableArguments {
    @Option(
        name: [.customShort("c"), .customLong("config")],
        help: ArgumentHelp(
            """
            The configuration file; listeners.admin in it is where the running gateway answers. \
            (default: $AUTHGATEWAY_CONFIG, then gateway.yaml, then that of the only gateway that runs)
            """,
            valueName: "file"
        )
    )
    var file: String?

    /// For a command that needs no gateway.
    func path() -> String { ConfigurationPath.file(file) }

    /// For a command that speaks to the running gateway.
    func runningPath() throws -> String { try ConfigurationPath.ofRunningGateway(file) }
}

struct StrictModesFlag: ParsableArguments {
    @Flag(
        name: .customLong("strict-modes"),
        help: "Refuse configuration files and folders that their group may write to; without it they are warnings."
    )
    var isOn = false
}

struct JSONFlag: ParsableArguments {
    @Flag(name: .customLong("json"), help: "Print JSON, for programs.")
    var isOn = false
}
