import GatewayCore
import GatewayFiles
import GatewayYAML

/// What `add` does: writes the credential and the routes of a preset into the configuration.
package struct AddOperation: Sendable {
    private let path: String
    private let presetName: String
    private let name: String?
    private let parameters: [String]
    private let secrets: [String]
    private let upstream: String?

    /// - Parameters:
    ///   - configuration: The path of the file, as messages shall print it.
    ///   - name: Of the credential and the first route; nil takes that of the preset.
    ///   - parameters: `NAME=VALUE`, each.
    ///   - secrets: Where secrets come from (``PresetSources``).
    ///   - upstream: The URL of a server that stands in for the preset's.
    package init(
        configuration: String,
        preset: String,
        name: String?,
        parameters: [String],
        secrets: [String],
        upstream: String?
    ) {
        self.upstream = upstream
        path = configuration
        presetName = preset
        self.name = name
        self.parameters = parameters
        self.secrets = secrets
    }

    /// - Parameters:
    ///   - isDry: Shows what would be written, and writes nothing.
    ///   - asks: The service whose credential it is, where that can be found out.
    /// - Returns: What is for standard output.
    package func run(isDry: Bool, asks: Bool) async throws(CommandFailure) -> String {
        guard FileIdentity(path) != nil else {
            let command = GatewayCommand.line("init", LogText.clean(presetName))
            throw CommandFailure(.configuration, "\(LogText.clean(path)) is not there; write one: \(command)")
        }
        let editor = try ConfigurationEditor(path)
        let preset = try PresetOperation.preset(presetName, configuration: path)
        try requireFree(preset, editor)
        var files = SecretFiles(stateDirectory: editor.stateDirectory, folder: editor.folder)
        let entries = try self.entries(preset, asks: !isDry, &files)
        try Self.append(entries, to: editor)
        let outcome = EditOutcome(editor, at: path)
        guard !isDry else {
            try outcome.preview()
            return "Nothing was written.\n"
        }
        var text = try await outcome.apply(isConfirmed: true) { () throws(CommandFailure) in
            try files.write()
        } undo: {
            files.remove()
        }
        text += PresetAdvice(preset, entries: entries).text
        return asks ? text + (try await Self.whoami(path, of: entries)) : text
    }

    /// Before anything is asked.
    private func requireFree(_ preset: Preset, _ editor: ConfigurationEditor) throws(CommandFailure) {
        let name = name ?? preset.name
        guard ConfigName.isValid(name) else { throw CommandFailure(.usage, ConfigName.rule) }
        let entries = PresetEntries(preset, as: name, upstream: upstream)
        let sections = [("credentials", [entries.credential]), ("routes", entries.routes)]
        for (section, new) in sections {
            let present = editor.root.entries(of: section).map(\.key)
            guard let taken = new.first(where: { present.contains($0.name) }) else { continue }
            let advice = "add it under another name: \(GatewayCommand.line("add", preset.name, "NAME"))"
            throw CommandFailure(.failed, "\(section) has an entry \"\(taken.name)\" already; \(advice)")
        }
    }

    /// - Parameter asks: On a terminal, for what the command line does not say.
    private func entries(
        _ preset: Preset,
        asks: Bool,
        _ files: inout SecretFiles
    ) throws(CommandFailure) -> PresetEntries {
        let name = name ?? preset.name
        let asks = asks && Console.isInputTerminal && Console.isErrorTerminal
        let values = try PresetParameters.values(parameters, of: preset, asks: asks)
        let sources = try PresetSources(secrets, for: preset.needs)
            .yaml(for: preset.needs, asks: asks, as: name, files: &files)
        return PresetEntries(preset, as: name, parameters: values, sources: sources, upstream: upstream)
    }

    private static func append(_ entries: PresetEntries, to editor: ConfigurationEditor) throws(CommandFailure) {
        try editor.append(.init(entries.credential.name, value: entries.credential.lines), to: "credentials")
        for route in entries.routes { try editor.append(.init(route.name, value: route.lines), to: "routes") }
    }

    /// Empty where a secret is not there yet, and where the preset asks nothing.
    private static func whoami(_ path: String, of entries: PresetEntries) async throws(CommandFailure) -> String {
        // Why it cannot be read has been said: a variable is not set.
        guard let plan = try? ConfigurationFile(path: path, consequence: "nothing was asked").plan else { return "" }
        let names = entries.routes.map(\.name)
        let credentials = Set(plan.routes.filter { names.contains($0.name) }.compactMap(\.credential))
        let usable = credentials.filter { plan.credentials[$0].canBeUsedElsewhere }
        let answers = try await WhoAmITrial(plan, credentials: usable).run(plan)
        return answers.map { "\($0.text).\n" }.joined()
    }
}
