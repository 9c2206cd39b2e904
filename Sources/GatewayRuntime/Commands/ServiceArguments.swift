import ArgumentParser

/// How a service is written: what `add` and `init` take behind its name.
struct ServiceArguments: ParsableArguments {
    @Argument(help: "The name of the credential and the route; that of the preset if left out.")
    var name: String?

    @Option(name: .customLong("with"), help: ArgumentHelp("A parameter of the preset.", valueName: "name=value"))
    var parameters: [String] = []

    @Option(
        name: .customLong("secret"),
        help: ArgumentHelp(
            "Where a secret comes from: [VARIABLE=]env:NAME, file:PATH, systemd:NAME or -.",
            valueName: "source"
        )
    )
    var secrets: [String] = []

    @Option(
        help: ArgumentHelp(
            "A server of your own in the place of the service's, such as a test server.",
            valueName: "url"
        )
    )
    var upstream: String?

    var options: ServiceOptions {
        ServiceOptions(name: name, parameters: parameters, secrets: secrets, upstream: upstream)
    }
}
