import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayFiles
import GatewayHTTP
import GatewayProxy

struct AddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Add a service that is known by name to the configuration.",
        discussion: """
            Examples:
              authgateway add github
              authgateway add openai --secret env:MY_OPENAI_KEY
              authgateway add okta campus --with domain=acme.okta.com
              authgateway add box --with enterprise=12345 \\
                --secret BOX_CLIENT_SECRET=file:box.secret
              authgateway add mcp https://mcp.example.com/mcp
              authgateway add mcp linear

            Adds a credential and the routes of a preset after the existing ones, and
            shows the difference. Comments and order stay. `authgateway presets` lists the
            presets; `authgateway presets show NAME` says what one needs.

            A secret is never given on the command line. --secret says where it comes from:
            env:NAME, file:PATH, systemd:NAME, or - to paste it. What is pasted is kept in
            a file with mode 0600 in the state directory, which git ignores where it is
            beside the configuration. On a terminal the command asks.

            A configuration without listeners.proxy gets a listener that programs can use
            as their proxy: `authgateway exec -- PROGRAM`.

            If all secrets are set, it asks the service who the credential belongs to.

            `add mcp URL` (or the name of a preset that has an MCP server) finds out where
            to log in for an MCP server, shows the authorization server and asks. Then it registers a client there, unless you
            name one (--client-id), adds a credential and a route, and logs in. Servers of
            your own network are asked only if you type their URL (URL, --issuer).
            """
    )

    @Argument(help: "The name of the preset, or mcp.")
    var preset: String

    @OptionGroup var service: ServiceArguments
    @OptionGroup var server: MCPServerOptions

    @Flag(name: .customLong("dry-run"), help: "Show the difference, and write nothing.")
    var isDryRun = false

    @Flag(name: .customLong("no-whoami"), help: "Send no request to the service.")
    var skipsWhoami = false

    @OptionGroup var yes: YesFlag
    @OptionGroup var config: ConfigOption

    private var isServer: Bool { preset == "mcp" }

    func validate() throws {
        guard !isServer, server.isGiven || yes.isGiven else { return }
        throw ValidationError("\(MCPServerOptions.names) and --yes are for: authgateway add mcp URL")
    }

    func run() async throws(CommandFailure) {
        let path = try config.path
        guard FileIdentity(path) != nil else {
            let name = isServer ? [] : [try PresetLibrary(of: path).preset(named: self.preset).name]
            let command = GatewayCommand.line(["init"] + name)
            throw CommandFailure(.configuration, "\(LogText.clean(path)) is not there; write one: \(command)")
        }
        if isServer { return try await addServer(path) }
        let editor = try ConfigurationEditor(path)
        let preset = try editor.presets.preset(named: self.preset)
        try requireFree(preset, editor)
        var files = SecretFiles(stateDirectory: editor.stateDirectory, folder: editor.folder)
        let name = try service.name(or: preset.name)
        let values = try service.values(of: preset, mayAsk: !isDryRun)
        let secrets = try service.secrets(of: preset.secrets, for: name, mayAsk: !isDryRun, files: &files)
        let entries = try service.entries(of: preset, values: values, secrets: secrets)
        try Self.append(entries, to: editor)
        let listener = Self.ensureProxy(in: editor)
        let outcome = EditOutcome(editor: editor, path: path)
        guard !isDryRun else {
            try outcome.preview()
            Console.write("Nothing was written.\n")
            return
        }
        let written = try await outcome.apply(isConfirmed: true, with: files)
        let advice = PresetAdvice(secrets, configuration: path, note: preset.note)
        let text =
            written.text + files.notice + listener + (written.gateway == .serves ? advice.notes : advice.text)
        let answer = try await whoami(of: entries, advice, written.gateway)
        Console.write(text + answer)
    }

    /// What `mcp` is followed by: a URL, or the name of a preset.
    private func addServer(_ path: String) async throws(CommandFailure) {
        guard let name = service.name, !name.contains("://") else {
            return try await MCPServerAddition(self, path, url: service.name).run()
        }
        let library = PresetLibrary(of: path)
        if let server = library[name]?.mcp {
            return try await MCPServerAddition(self, path, url: server.text, name: "\(name)-mcp").run()
        }
        guard library["\(name)-mcp"] != nil else {
            let known = library.mcpServers
            let hint = Suggestion.hint(for: name, in: known)
            let advice = hint.isEmpty ? "; give its URL, or one of \(known.joined(separator: ", "))" : hint
            throw CommandFailure(.failed, "no MCP server is known as \"\(LogText.clean(name))\"\(advice)")
        }
        guard !server.isAboutLogin else {
            let options = MCPServerOptions.loginNames
            throw CommandFailure(.usage, "the MCP server of \(name) takes a key: \(options) are for a login")
        }
        var command = self
        command.preset = "\(name)-mcp"
        command.service.name = server.entryName
        try await command.run()
    }

    /// Before anything is asked.
    private func requireFree(_ preset: Preset, _ editor: ConfigurationEditor) throws(CommandFailure) {
        let entries = PresetEntries(preset, as: try service.name(or: preset.name), upstream: service.upstream)
        let (credential, routes) = (entries.credential.name, entries.routes.map(\.name))
        try Self.requireFree(credential, routes, in: editor, otherwise: ["add", preset.name, "NAME"])
    }

    /// - Parameter command: How to choose another name.
    static func requireFree(
        _ credential: String,
        _ routes: [String],
        in editor: ConfigurationEditor,
        otherwise command: [String]
    ) throws(CommandFailure) {
        for (section, names) in [("credentials", [credential]), ("routes", routes)] {
            let present = editor.root.entries(of: section).map(\.key)
            guard let taken = names.first(where: present.contains) else { continue }
            let advice = "add it under another name: \(GatewayCommand.line(command))"
            throw CommandFailure(.failed, "\(section) has an entry \"\(taken)\" already; \(advice)")
        }
    }

    static func append(_ entries: PresetEntries, to editor: ConfigurationEditor) throws(CommandFailure) {
        try editor.append(.init(entries.credential.name, value: entries.credential.lines), to: "credentials")
        for route in entries.routes { try editor.append(.init(route.name, value: route.lines), to: "routes") }
    }

    /// Programs with built-in `https://` URLs need a listener that takes CONNECT. One is added where the file has no listener for
    /// clients; those that a person wrote stay as they are.
    ///
    /// - Returns: Advice for a file that has only listeners of other kinds.
    static func ensureProxy(in editor: ConfigurationEditor) -> String {
        let advice =
            "For programs with built-in https:// URLs (authgateway exec), set intercept: true on a listener of listeners.proxy.\n"
        let present = editor.root.entries(of: "listeners").first { $0.key == "proxy" }
        guard let present else {
            // A section that is written in one line is for a person to change.
            guard (try? editor.append(.init("proxy", value: FirstConfiguration.proxy), to: "listeners")) == nil else {
                return ""
            }
            return advice
        }
        return present.value.hasTrue("intercept") ? "" : advice
    }

    /// Empty if the preset asks nothing. Also empty, after a message, if the configuration cannot be read here.
    private func whoami(
        of entries: PresetEntries,
        _ advice: PresetAdvice,
        _ gateway: EditOutcome.Written.Gateway
    ) async throws(CommandFailure) -> String {
        // A gateway that refuses the file has said why, and the advice says what a secret lacks.
        guard !skipsWhoami, gateway != .refuses else { return "" }
        guard advice.missing.isEmpty else {
            return gateway == .serves ? "The service was not asked: its secret is not set here.\n" : ""
        }
        let plan: Plan
        do throws(CommandFailure) {
            plan = try ConfigurationFile(path: config.path, consequence: "the service was not asked").plan
        } catch {
            // A running gateway has all that the configuration needs.
            guard gateway != .serves else {
                return "The service was not asked: other secrets of the configuration are not set here.\n"
            }
            // What was asked for is done.
            Console.writeError(error.description)
            return ""
        }
        let names = entries.routes.map(\.name)
        let credentials = Set(plan.routes.filter { names.contains($0.name) }.compactMap(\.credential))
        let usable = credentials.filter { plan.credentials[$0].canBeUsedElsewhere }
        let answers = try await WhoAmITrial(plan, credentials: usable).run(plan)
        return answers.map { "\($0.text).\n" }.joined()
    }
}

extension ConfigNode {
    /// Whether an element of this list has the key with the value `true`.
    fileprivate func hasTrue(_ key: String) -> Bool {
        guard case .sequence(let elements) = content else { return false }
        return elements.contains { element in
            guard case .mapping(let entries) = element.content,
                case .scalar(let scalar)? = entries.first(where: { $0.key == key })?.value.content
            else { return false }
            return scalar.text == "true"
        }
    }
}
