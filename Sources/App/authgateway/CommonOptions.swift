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

struct JSONFlag: ParsableArguments {
    @Flag(name: .customLong("json"), help: "Print JSON, for programs.")
    var isOn = false
}
