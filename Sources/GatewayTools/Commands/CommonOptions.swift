import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayFiles
import Glibc

/// Which gateway is meant. What counts before what is decided by ``ConfigLocator``.
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

    init() {}

    init(file: String?) { self.file = file }

    /// For a command that needs no gateway.
    ///
    /// - Throws: ``ExitStatus/configuration`` if the file was found, not named, and belongs to another user.
    var path: String {
        get throws(CommandFailure) {
            if !isNamed { try Self.requireOwn(ConfigLocator.standard) }
            return name
        }
    }

    /// ``path`` as messages show it. Nothing is read from there before ``path`` was asked for.
    var name: String {
        let location = ConfigLocator.locate(
            option: file,
            variable: Console.environment(ConfigLocator.variable),
            hasStandard: { true }
        )
        guard case .file(let path) = location else { return ConfigLocator.standard }
        return path
    }

    /// Whether somebody said which file is meant. A file that was named is never made up.
    var isNamed: Bool { file != nil || !(Console.environment(ConfigLocator.variable) ?? "").isEmpty }

    /// For a command that speaks to the running gateway: without a configuration here, that gateway's own one.
    ///
    /// - Throws: ``ExitStatus/usage`` when several gateways run.
    func runningPath() throws(CommandFailure) -> String {
        let location = ConfigLocator.locate(
            option: file,
            variable: Console.environment(ConfigLocator.variable),
            hasStandard: { FileStatus.owner(of: ConfigLocator.standard) != nil },
            running: { RunningGateways(environment: Console.environment).all() }
        )
        switch location {
        case .file(let path):
            if !isNamed { try Self.requireOwn(path) }
            return path
        case .running(let gateway):
            let path = LogText.clean(gateway.configuration)
            Console.writeError("The running gateway is that of \(path) (process \(gateway.process)).\n")
            return gateway.configuration
        case .ambiguous(let gateways):
            throw CommandFailure(.usage, ConfigLocator.advice(on: gateways))
        }
    }

    /// Refuses a file that was only found here if it, its folder or a file that it includes is another user's.
    private static func requireOwn(_ path: String) throws(CommandFailure) {
        guard FileStatus.owner(of: path) != nil else { return }
        let files = SystemConfigFiles()
        let file = files.absolutePath(path)
        let folder = file.lastIndex(of: "/").map { String(file[..<$0]) } ?? ""
        try requireOwn([folder.isEmpty ? "/" : folder, file])
        try requireOwn(ConfigLoader.unread(files).load(path).files.map(\.path))
    }

    private static func requireOwn(_ places: [String]) throws(CommandFailure) {
        let invoker = Console.environment("SUDO_UID").flatMap { UInt32($0) }
        for place in places {
            let refusal = ConfigLocator.refusal(
                of: LogText.clean(place),
                owner: FileStatus.owner(of: place),
                user: geteuid(),
                invoker: invoker
            )
            if let refusal { throw CommandFailure(.configuration, refusal) }
        }
    }

    /// What the configuration of the running gateway says of it.
    func runningSettings() throws(CommandFailure) -> OperatorSettings { try OperatorSettings(running: runningPath()) }
}

/// Which running gateway is meant: that of a configuration, or the one that `--admin` names.
struct GatewayPlace: ParsableArguments {
    @OptionGroup var config: ConfigOption

    @Option(
        help: ArgumentHelp(
            """
            The admin listener of the gateway, instead of a configuration: https://HOST:PORT, or on this machine \
            http://127.0.0.1:PORT or unix:PATH. (default: $AUTHGATEWAY_ADMIN)
            """,
            valueName: "url"
        )
    )
    var admin: String?

    @Option(
        help: ArgumentHelp(
            """
            The file with the token of a user of that listener; on this machine also admin.token of the state directory. \
            (default: $AUTHGATEWAY_ADMIN_TOKEN_FILE)
            """,
            valueName: "file"
        )
    )
    var adminTokenFile: String?

    /// nil where the gateway of a configuration is meant.
    func named() throws(CommandFailure) -> NamedAdmin? {
        try NamedAdmin.find(address: admin, tokenFile: adminTokenFile, hasConfiguration: config.file != nil)
    }
}

/// What commands take that ask the gateway of a configuration, or the one that `--admin` names.
struct RunningGatewayOptions: ParsableArguments {
    @OptionGroup var place: GatewayPlace
    @OptionGroup var json: JSONFlag

    /// What speaks to the gateway, and the path of its configuration; nil where `--admin` names it.
    func gateway() throws(CommandFailure) -> (client: AdminClient, configuration: String?) {
        if let named = try place.named() { return (AdminClient(named), nil) }
        let path = try place.config.runningPath()
        return (try OperatorSettings(running: path).client, path)
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

    var path: String {
        get throws(CommandFailure) { if let file { file } else { try config.path } }
    }

    /// ``path`` as messages show it.
    var name: String { file ?? config.name }
}

extension CommandFailure {
    /// Ends a command that has already said why, unless all went well.
    static func require(noneOf failed: [String]) throws(CommandFailure) {
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

/// `--json`, and `-o json`, which people know from other programs.
struct JSONFlag: ParsableArguments {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case text
        case json
    }

    @Flag(name: .customLong("json"), help: "Print JSON, for programs.")
    private var isGiven = false

    @Option(
        name: .customShort("o"),
        help: ArgumentHelp("What to print; -o json is the same as --json.", valueName: "format")
    )
    private var format: Format?

    var isOn: Bool { isGiven || format == .json }

    func validate() throws {
        guard isGiven, format == .text else { return }
        throw ValidationError("--json cannot be combined with -o text.")
    }

    /// Prints a list. For people, an empty one is a note on standard error.
    func write<Element: Encodable>(
        _ list: [Element],
        none: String,
        or text: @autoclosure () -> String
    ) throws(CommandFailure) {
        guard isOn || !list.isEmpty else { return Console.writeError(none + "\n") }
        Console.write(try self.text(of: list, or: text()))
    }

    /// What a command prints: the value for programs, or the text for people.
    func text(of value: some Encodable, or text: @autoclosure () -> String) throws(CommandFailure) -> String {
        isOn ? try JSONText.pretty(value) : text()
    }
}
