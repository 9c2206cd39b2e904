import ArgumentParser

/// Which gateway is meant.
struct ConfigOption: ParsableArguments {
    @Option(
        name: [.customShort("c"), .customLong("config")],
        help: ArgumentHelp(
            "The configuration file; listeners.admin in it is where the running gateway answers.",
            valueName: "file"
        )
    )
    var path = "gateway.yaml"
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
