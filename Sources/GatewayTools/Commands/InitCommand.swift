import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayFiles
import GatewayHTTP

struct InitCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Write the first configuration of a folder.",
        discussion: """
            Examples:
              authgateway init
              authgateway init github
              authgateway init openai --secret env:MY_OPENAI_KEY
              authgateway init https://api.example.com --secret file:example.token

            On a terminal it asks what you call, and for the secret: paste it, or name an
            environment variable. A pasted secret is kept in a file with mode 0600 below
            ./state, which git ignores. Without a terminal and without a service it also
            writes sandbox.yaml: local services for `authgateway run --sandbox`, which are
            absent without --sandbox. It never replaces a file.

            Then add services with `authgateway add NAME`, and run programs with built-in
            https:// URLs with `authgateway exec -- PROGRAM`.
            """
    )

    @Argument(help: "What you call: the name of a preset, or a URL.")
    var service: String?

    @OptionGroup var details: ServiceArguments

    @Option(help: "Port of the proxy listener. The status page uses the next port.")
    var port = 8080

    @OptionGroup var config: ConfigOption

    func validate() throws {
        guard (1...65_534).contains(port) else { throw ValidationError("--port must be between 1 and 65534.") }
        if service == nil, !details.parameters.isEmpty || !details.secrets.isEmpty || details.upstream != nil {
            throw ValidationError("--with, --secret and --upstream need a service.")
        }
    }

    /// What a person wants to call.
    private enum Choice {
        case preset(Preset)
        case url(FirstConfiguration.Service)
        /// Nothing yet: a sandbox to try things.
        case sandbox
    }

    func run() throws(CommandFailure) {
        guard FileIdentity(path) == nil else {
            let advice = "add a service to it: authgateway add NAME"
            throw CommandFailure(.failed, "\(LogText.clean(path)) is there already; \(advice)")
        }
        var files = secretFiles
        let (secrets, entries): ([PresetSecret], PresetEntries)
        let (note, request): (String?, String?)
        switch try choose() {
        case .sandbox:
            let written = try StarterConfiguration.write(to: path, port: port)
            files.hideFromGit()
            let serving = "Run it with a sandbox of local services:\n  \(runCommand("--sandbox"))\n"
            let adding = "Or add a service:\n  \(GatewayCommand.line(["add", "NAME"] + place))\n"
            Console.write("Wrote \(written).\n" + serving + adding)
            return
        case .preset(let preset):
            let name = try details.name(or: preset.name)
            let values = try details.values(of: preset, mayAsk: true)
            secrets = try details.secrets(of: preset.secrets, for: name, mayAsk: true, files: &files)
            entries = try details.entries(of: preset, values: values, secrets: secrets)
            (note, request) = (preset.note, preset.whoami)
        case .url(let service):
            let name = try details.name(or: service.name)
            let secret = service.secret(for: name)
            secrets = try details.secrets(of: [secret], for: name, mayAsk: true, files: &files)
            entries = service.entries(as: name, token: secrets[0].yaml)
            (note, request) = (nil, nil)
        }
        let written = try write(entries, files)
        let advice = PresetAdvice(secrets, configuration: path, note: note)
        files.hideFromGit()
        let next = next(entries.credential.name, request: request ?? "/")
        Console.write(written + files.notice + advice.text + next)
    }

    // MARK: What to call

    private func choose() throws(CommandFailure) -> Choice {
        guard let service = service ?? asked() else { return .sandbox }
        if service.contains("://") {
            do throws(UnusableInput) {
                return .url(try FirstConfiguration.Service(url: service))
            } catch {
                throw CommandFailure(.usage, "\(LogText.clean(service)): \(error.message)")
            }
        }
        return .preset(try PresetLibrary(of: path).preset(named: service))
    }

    private func asked() -> String? {
        guard ServiceArguments.canAsk else { return nil }
        Console.writeError(
            "What do you call? A service such as github, openai or box (`authgateway presets` lists them),\n"
        )
        Console.writeError("or a URL; Enter for a sandbox to try things: ")
        let answer = (readLine() ?? "").filter { !$0.isWhitespace }
        return answer.isEmpty ? nil : answer
    }

    // MARK: The file

    private var path: String { config.name }
    private var shown: String { LogText.clean(path) }

    /// For the commands that are named in messages.
    private func runCommand(_ options: String...) -> String { GatewayCommand.line(["run"] + options + place) }

    private var place: [String] { path == ConfigLocator.standard ? [] : ["--config", shown] }

    private var secretFiles: SecretFiles {
        let absolute = SystemConfigFiles().absolutePath(path)
        let folder = absolute.lastIndex(of: "/").map { String(absolute[..<$0]) } ?? ""
        return SecretFiles(stateDirectory: "\(folder)/state", folder: folder)
    }

    private func write(_ entries: PresetEntries, _ files: SecretFiles) throws(CommandFailure) -> String {
        let content = try content(with: entries)
        try files.write { () throws(CommandFailure) in try write(content) }
        Console.writeError(ConfigurationCheck(path, readsSecrets: false).notes)
        return "Wrote \(shown).\n"
    }

    private func content(with entries: PresetEntries) throws(CommandFailure) -> [UInt8] {
        let head = FirstConfiguration.head(port: port, command: runCommand())
        do throws(ConfigurationEditError) {
            var text = try ConfigurationText(Array(head.utf8))
            try text.append(.init(entries.credential.name, value: entries.credential.lines), to: "credentials")
            for route in entries.routes { try text.append(.init(route.name, value: route.lines), to: "routes") }
            return text.bytes
        } catch {
            throw CommandFailure(.configuration, error.text(in: shown))
        }
    }

    private func write(_ content: [UInt8]) throws(CommandFailure) {
        do throws(PrivateFile.Failure) {
            try PrivateFile.createNew(path, content: content)
        } catch {
            throw CommandFailure(.failed, "\(shown) cannot be written: \(error.reason)")
        }
    }

    /// - Parameter request: The path of a request that shows whether it works.
    private func next(_ name: String, request: String) -> String {
        """
        Run it, and call the service in another terminal:
          \(runCommand())
          curl http://127.0.0.1:\(port)/\(name)\(request)
        A program with built-in https:// URLs runs unmodified:
          \(GatewayCommand.line(["exec"] + place + ["--", "PROGRAM"]))

        """
    }
}
