import GatewayConfiguration
import GatewayCore
import GatewayFiles

/// What `add` does: writes the credential and the routes of a preset into the configuration.
package struct AddOperation: Sendable {
    private let path: String
    private let presetName: String
    private let options: ServiceOptions

    /// - Parameter configuration: The path of the file, as messages shall print it.
    package init(configuration: String, preset: String, options: ServiceOptions) {
        path = configuration
        presetName = preset
        self.options = options
    }

    /// - Parameters:
    ///   - isDryRun: Shows what would be written, and writes nothing.
    ///   - checksCredential: Asks the service whose credential it is, where that can be found out.
    /// - Returns: What is for standard output.
    package func run(isDryRun: Bool, checksCredential: Bool) async throws(CommandFailure) -> String {
        guard FileIdentity(path) != nil else {
            let command = GatewayCommand.line("init", LogText.clean(presetName))
            throw CommandFailure(.configuration, "\(LogText.clean(path)) is not there; write one: \(command)")
        }
        let editor = try ConfigurationEditor(path)
        let preset = try PresetOperation.preset(presetName, in: editor.presets)
        try requireFree(preset, editor)
        var files = SecretFiles(stateDirectory: editor.stateDirectory, folder: editor.folder)
        let name = try options.name(or: preset.name)
        let values = try options.values(of: preset, mayAsk: !isDryRun)
        let secrets = try options.secrets(of: preset.secrets, for: name, mayAsk: !isDryRun, files: &files)
        let entries = try options.entries(of: preset, values: values, secrets: secrets)
        try Self.append(entries, to: editor)
        let listener = Self.ensureProxy(in: editor)
        let outcome = EditOutcome(editor, at: path)
        guard !isDryRun else {
            try outcome.preview()
            return "Nothing was written.\n"
        }
        let written = try await outcome.apply(isConfirmed: true, with: files)
        let advice = PresetAdvice(secrets, configuration: path, note: preset.note)
        let text =
            written.text + files.notice + listener + (written.gateway == .serves ? advice.notes : advice.text)
        // A gateway that refuses the file has said why, and the advice says what a secret lacks.
        guard checksCredential, written.gateway != .refuses else { return text }
        guard advice.missing.isEmpty else {
            return written.gateway == .serves ? text + "The service was not asked: its secret is not set here.\n" : text
        }
        return text + (try await Self.whoami(path, of: entries, isServed: written.gateway == .serves))
    }

    /// Before anything is asked.
    private func requireFree(_ preset: Preset, _ editor: ConfigurationEditor) throws(CommandFailure) {
        let entries = PresetEntries(preset, as: try options.name(or: preset.name), upstream: options.upstream)
        let sections = [("credentials", [entries.credential]), ("routes", entries.routes)]
        for (section, new) in sections {
            let present = editor.root.entries(of: section).map(\.key)
            guard let taken = new.first(where: { present.contains($0.name) }) else { continue }
            let advice = "add it under another name: \(GatewayCommand.line("add", preset.name, "NAME"))"
            throw CommandFailure(.failed, "\(section) has an entry \"\(taken.name)\" already; \(advice)")
        }
    }

    private static func append(_ entries: PresetEntries, to editor: ConfigurationEditor) throws(CommandFailure) {
        try editor.append(.init(entries.credential.name, value: entries.credential.lines), to: "credentials")
        for route in entries.routes { try editor.append(.init(route.name, value: route.lines), to: "routes") }
    }

    /// Programs with built-in `https://` URLs need a listener that takes CONNECT. One is added where the file has no listener for
    /// clients; those that a person wrote stay as they are.
    ///
    /// - Returns: What to do where it has others only.
    private static func ensureProxy(in editor: ConfigurationEditor) -> String {
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

    /// Empty where the preset asks nothing, and where the configuration cannot be read here, which is said.
    ///
    /// - Parameter isServed: A running gateway has all that the configuration needs.
    private static func whoami(
        _ path: String,
        of entries: PresetEntries,
        isServed: Bool
    ) async throws(CommandFailure) -> String {
        let plan: Plan
        do throws(CommandFailure) {
            plan = try ConfigurationFile(path: path, consequence: "the service was not asked").plan
        } catch {
            guard !isServed else {
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
