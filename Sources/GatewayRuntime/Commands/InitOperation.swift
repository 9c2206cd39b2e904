import GatewayConfiguration
import GatewayCore
import GatewayFiles

/// What `init` does: writes the first configuration of a folder.
package struct InitOperation: Sendable {
    /// What a person wants to call.
    private enum Service {
        case preset(Preset)
        case url(FirstConfiguration.Service)
        /// Nothing yet: a sandbox to try things.
        case sandbox
    }

    private let path: String
    private let service: String?
    private let options: ServiceOptions
    private let port: Int

    /// - Parameters:
    ///   - configuration: The path of the file to write.
    ///   - service: The name of a preset, or a URL; nil asks on a terminal, and is the sandbox elsewhere.
    ///   - port: Of the proxy listener.
    package init(configuration: String, service: String?, options: ServiceOptions, port: Int) {
        path = configuration
        self.service = service
        self.options = options
        self.port = port
    }

    /// - Returns: What is for standard output.
    package func run() throws(CommandFailure) -> String {
        guard FileIdentity(path) == nil else {
            let advice = "add a service to it: authgateway add NAME"
            throw CommandFailure(.failed, "\(LogText.clean(path)) is there already; \(advice)")
        }
        var files = secretFiles
        let (secrets, entries): ([PresetSecret], PresetEntries)
        let (note, request): (String?, String?)
        switch try chosen() {
        case .sandbox:
            let written = try StarterConfiguration.write(to: path, port: port)
            files.hideFromGit()
            let serving = "Serve it, with a sandbox of local services:\n  \(runCommand("--sandbox"))\n"
            let adding = "Or add a service:\n  \(GatewayCommand.line(["add", "NAME"] + place))\n"
            return "Wrote \(written).\n" + serving + adding
        case .preset(let preset):
            let name = try options.name(or: preset.name)
            let values = try options.values(of: preset, mayAsk: true)
            secrets = try options.secrets(of: preset.secrets, for: name, mayAsk: true, files: &files)
            entries = try options.entries(of: preset, values: values, secrets: secrets)
            (note, request) = (preset.note, preset.whoami)
        case .url(let service):
            let name = try options.name(or: service.name)
            let secret = service.secret(for: name)
            secrets = try options.secrets(of: [secret], for: name, mayAsk: true, files: &files)
            entries = service.entries(as: name, token: secrets[0].yaml)
            (note, request) = (nil, nil)
        }
        let written = try write(entries, files)
        let advice = PresetAdvice(secrets, configuration: path, note: note)
        files.hideFromGit()
        return written + files.notice + advice.text + next(entries.credential.name, request: request ?? "/")
    }

    // MARK: What to call

    private func chosen() throws(CommandFailure) -> Service {
        guard let service = service ?? asked() else { return .sandbox }
        if service.contains("://") {
            do throws(UnusableInput) {
                return .url(try FirstConfiguration.Service(url: service))
            } catch {
                throw CommandFailure(.usage, "\(LogText.clean(service)): \(error.message)")
            }
        }
        return .preset(try PresetOperation.preset(service, configuration: path))
    }

    private func asked() -> String? {
        guard ServiceOptions.canAsk else { return nil }
        Console.writeError(
            "What do you call? A service such as github, openai or box (`authgateway presets` lists them),\n"
        )
        Console.writeError("or a URL; Enter for a sandbox to try things: ")
        let answer = (readLine() ?? "").filter { !$0.isWhitespace }
        return answer.isEmpty ? nil : answer
    }

    // MARK: The file

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
        let check = CheckOperation(configuration: path, asJSON: false, readsSecrets: false, strictModes: false)
        Console.writeError(try check.run().notes)
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
        Serve it, and call the service in another terminal:
          \(runCommand())
          curl http://127.0.0.1:\(port)/\(name)\(request)
        A program with built-in https:// URLs runs unmodified:
          \(GatewayCommand.line(["exec"] + place + ["--", "PROGRAM"]))

        """
    }
}
