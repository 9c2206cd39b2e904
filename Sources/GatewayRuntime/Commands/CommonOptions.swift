import ArgumentParser

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

/// Where the gateway that is meant answers, and what proves who asks.
struct NamedAdminOptions: ParsableArguments {
    @Option(
        name: .customLong("admin"),
        help: ArgumentHelp(
            """
            The admin listener of the gateway, instead of a configuration: https://HOST:PORT, or on this machine \
            http://127.0.0.1:PORT or unix:PATH. (default: $AUTHGATEWAY_ADMIN)
            """,
            valueName: "url"
        )
    )
    var url: String?

    @Option(
        name: .customLong("admin-token-file"),
        help: ArgumentHelp(
            """
            The file with the token of a user of that listener; on this machine also admin.token of the state directory. \
            (default: $AUTHGATEWAY_ADMIN_TOKEN_FILE)
            """,
            valueName: "file"
        )
    )
    var tokenFile: String?

    /// - Returns: nil where the gateway of a configuration is meant.
    func named(unless config: ConfigOption) throws -> NamedAdmin? {
        try NamedAdmin.find(address: url, tokenFile: tokenFile, hasConfiguration: config.file != nil)
    }
}

/// What commands take that only ask the running gateway.
struct RunningGatewayOptions: ParsableArguments {
    @OptionGroup var config: ConfigOption
    @OptionGroup var admin: NamedAdminOptions
    @OptionGroup var json: JSONFlag

    func operatorCommands() throws -> OperatorCommands {
        if let named = try admin.named(unless: config) { return OperatorCommands(named, asJSON: json.isOn) }
        return try OperatorCommands(configuration: config.runningPath(), asJSON: json.isOn)
    }

    func tokenCommands() throws -> TokenCommands {
        if let named = try admin.named(unless: config) { return TokenCommands(named, asJSON: json.isOn) }
        return try TokenCommands(configuration: config.runningPath(), asJSON: json.isOn)
    }
}

/// A configuration file that may also be named without an option.
struct ConfigArgument: ParsableArguments {
    @Argument(help: "The configuration file, the same as --config.")
    var file: String?

    @OptionGroup var config: ConfigOption

    func validate() throws {
        if file != nil, config.file != nil {
            throw ValidationError("Name the file once: as an argument or with --config.")
        }
    }

    /// For a command that needs no gateway.
    func path() -> String { file ?? config.path() }
}

extension CommandFailure {
    /// Ends a command that has already said why, unless all went well.
    static func require(noneOf failed: [String]) throws {
        guard failed.isEmpty else { throw Self(.failed, "failed for \(failed.joined(separator: ", "))") }
    }
}

struct StrictModesFlag: ParsableArguments {
    @Flag(
        name: .customLong("strict-modes"),
        help: "Refuse configuration files and folders that their group may write to; without it they are warnings."
    )
    var isOn = false
}

struct YesFlag: ParsableArguments {
    @Flag(name: .customLong("yes"), help: "Write without asking.")
    var isGiven = false
}

struct JSONFlag: ParsableArguments {
    @Flag(name: .customLong("json"), help: "Print JSON, for programs.")
    var isOn = false
}
