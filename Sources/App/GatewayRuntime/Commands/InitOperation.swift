import GatewayCore
import GatewayFiles
import GatewaySandbox
import GatewayYAML

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
    private let name: String?
    private let parameters: [String]
    private let secrets: [String]
    private let upstream: String?
    private let port: Int

    /// - Parameters:
    ///   - configuration: The path of the file to write.
    ///   - service: The name of a preset, or a URL; nil asks on a terminal, and is the sandbox elsewhere.
    ///   - name: Of the credential and the route.
    ///   - parameters: `NAME=VALUE`, each.
    ///   - secrets: Where secrets come from (``PresetSources``).
    ///   - upstream: The URL of a server that stands in for the preset's.
    ///   - port: Of the proxy listener.
    package init(
        configuration: String,
        service: String?,
        name: String?,
        parameters: [String],
        secrets: [String],
        upstream: String?,
        port: Int
    ) {
        self.upstream = upstream
        path = configuration
        self.service = service
        self.name = name
        self.parameters = parameters
        self.secrets = secrets
        self.port = port
    }

    /// - Returns: What is for standard output.
    package func run() throws(CommandFailure) -> String {
        guard FileIdentity(path) == nil else {
            let advice = "add a service to it: authgateway add NAME"
            throw CommandFailure(.failed, "\(LogText.clean(path)) is there already; \(advice)")
        }
        switch try chosen() {
        case .sandbox:
            try write(StarterConfiguration.text)
            return "Wrote \(shown), for a sandbox of local services.\nServe it:\n  \(runCommand("--sandbox"))\n"
        case .preset(let preset):
            let name = try checked(name ?? preset.name)
            let values = try PresetParameters.values(parameters, of: preset, asks: isAsking)
            var files = secretFiles
            let sources = try PresetSources(secrets, for: preset.needs)
                .yaml(for: preset.needs, asks: isAsking, as: name, files: &files)
            let entries = PresetEntries(preset, as: name, parameters: values, sources: sources, upstream: upstream)
            return try write(entries, files) + PresetAdvice(preset, entries: entries).text + next(name, preset)
        case .url(let service):
            let name = try checked(name ?? service.name)
            let need = service.need(for: name)
            var files = secretFiles
            let sources = try PresetSources(secrets, for: [need])
                .yaml(for: [need], asks: isAsking, as: name, files: &files)
            let token = sources[need.variable] ?? "{env: \(need.variable)}"
            let entries = service.entries(as: name, token: token)
            let advice = PresetAdvice(needs: [need], note: nil, entries: entries)
            return try write(entries, files) + advice.text + next(name, nil)
        }
    }

    // MARK: What to call

    private var isAsking: Bool { Console.isInputTerminal && Console.isErrorTerminal }

    private func chosen() throws(CommandFailure) -> Service {
        guard let service = service ?? asked() else { return .sandbox }
        if service.contains("://") {
            do throws(FirstConfiguration.UnusableURL) {
                return .url(try FirstConfiguration.Service(url: service))
            } catch {
                throw CommandFailure(.usage, "\(LogText.clean(service)): \(error.message)")
            }
        }
        return .preset(try PresetOperation.preset(service, configuration: path))
    }

    private func asked() -> String? {
        guard isAsking else { return nil }
        Console.writeError(
            "What do you call? A service such as github, openai or box (`authgateway presets` lists them),\n"
        )
        Console.writeError("or a URL; Enter for a sandbox to try things: ")
        let answer = (readLine() ?? "").filter { !$0.isWhitespace }
        return answer.isEmpty ? nil : answer
    }

    private func checked(_ name: String) throws(CommandFailure) -> String {
        guard ConfigName.isValid(name) else { throw CommandFailure(.usage, ConfigName.rule) }
        return name
    }

    // MARK: The file

    private var shown: String { LogText.clean(path) }
    /// For the commands that are named in messages.
    private func runCommand(_ options: String...) -> String {
        let place = path == ConfigLocator.standard ? [] : ["--config", shown]
        return GatewayCommand.line(["run"] + options + place)
    }

    private var secretFiles: SecretFiles {
        let absolute = SystemConfigFiles().absolutePath(path)
        let folder = absolute.lastIndex(of: "/").map { String(absolute[..<$0]) } ?? ""
        return SecretFiles(stateDirectory: "\(folder)/state", folder: folder)
    }

    private func write(_ entries: PresetEntries, _ files: SecretFiles) throws(CommandFailure) -> String {
        let text = try text(with: entries)
        try files.write()
        do throws(CommandFailure) {
            try write(text)
        } catch {
            files.remove()
            throw error
        }
        let check = CheckOperation(configuration: path, asJSON: false, readsSecrets: false, strictModes: false)
        Console.writeError(try check.run().notes)
        return "Wrote \(shown).\n"
    }

    private func text(with entries: PresetEntries) throws(CommandFailure) -> String {
        let head = FirstConfiguration.head(port: port, command: runCommand())
        do throws(ConfigurationEditError) {
            var text = try ConfigurationText(Array(head.utf8))
            try text.append(.init(entries.credential.name, value: entries.credential.lines), to: "credentials")
            for route in entries.routes { try text.append(.init(route.name, value: route.lines), to: "routes") }
            return String(decoding: text.bytes, as: UTF8.self)
        } catch {
            throw CommandFailure(.configuration, error.text(in: shown))
        }
    }

    private func write(_ text: String) throws(CommandFailure) {
        do throws(PrivateFile.Failure) {
            try PrivateFile.create(path, content: Array(text.utf8))
        } catch {
            throw CommandFailure(.failed, "\(shown) cannot be written: \(error.reason)")
        }
    }

    private func next(_ name: String, _ preset: Preset?) -> String {
        let request = preset?.whoami ?? "/"
        return """
            Serve it, and call the service in another terminal:
              \(runCommand())
              curl http://127.0.0.1:\(port)/\(name)\(request)

            """
    }
}
