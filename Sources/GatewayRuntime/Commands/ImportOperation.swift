import GatewayConfiguration
import GatewayCore
import GatewayFiles

/// What `import` does: takes services over from another program's configuration, and puts secrets where they belong.
package struct ImportOperation: Sendable {
    private let path: String
    private let source: ImportSource
    private let host: String?

    /// - Parameters:
    ///   - configuration: The path of the file, as messages shall print it.
    ///   - host: Only services there.
    package init(configuration: String, source: ImportSource, host: String?) {
        path = configuration
        self.source = source
        self.host = host
    }

    /// - Parameter isConfirmed: Writes without a question.
    /// - Returns: What is for standard output.
    package func run(isConfirmed: Bool) async throws(CommandFailure) -> String {
        let findings = try source.read()
        let notes = findings.notes.map { "note: \($0)\n" }.joined()
        let services = try narrowed(findings.services, notes)
        let editor = try ConfigurationEditor(path)
        var files = SecretFiles(stateDirectory: editor.stateDirectory, folder: editor.folder)
        let entries = ImportedEntries.make(services, taken: taken(editor, files), folder: files.shownDirectory)
        for entry in entries { try editor.append(.init(entry.name, value: entry.credential), to: "credentials") }
        for entry in entries { try editor.append(.init(entry.name, value: entry.route), to: "routes") }
        Console.writeError(notes)
        for file in entries.compactMap(\.secretFile) { _ = try files.add(file.secret, as: file.name) }
        let written = try await EditOutcome(editor, at: path).apply(isConfirmed: isConfirmed, with: files)
        return written.text + entries.map { owner(of: $0, in: files.directory) }.joined()
    }

    private func narrowed(_ services: [ImportedService], _ notes: String) throws(CommandFailure) -> [ImportedService] {
        guard !services.isEmpty else {
            throw CommandFailure(.failed, "\(source.name): nothing to import\n\(notes)")
        }
        guard let host else { return services }
        let hosts = services.compactMap { try? RequestURL($0.upstream).host }
        let narrowed = services.filter { (try? RequestURL($0.upstream).host) == host.lowercased() }
        guard !narrowed.isEmpty else {
            let found = hosts.prefix(20).map(LogText.clean).joined(separator: ", ")
            throw CommandFailure(.failed, "\(source.name): nothing for \(LogText.clean(host)); there are \(found)")
        }
        return narrowed
    }

    private func taken(_ editor: ConfigurationEditor, _ files: SecretFiles) -> Set<String> {
        Set(["credentials", "routes"].flatMap { editor.root.entries(of: $0).map(\.key) } + files.names)
    }

    /// Who keeps the secret from now on.
    private func owner(of entry: ImportedEntries, in folder: String) -> String {
        let words: String
        switch entry.secret {
        case .clear:
            words =
                "its secret was copied to \(folder)/\(entry.name) (mode 0600), and the gateway uses that copy. "
                + "The one in \(source.name) is still there; a change there changes nothing here."
        case .environment: words = "set \(entry.variables.joined(separator: ", ")) where the gateway is started."
        case .file(let path): words = "the gateway reads its secret from \(LogText.clean(path)), where it is."
        case .program(let command):
            let program = command.map(ShellWord.quoted).joined(separator: " ")
            words = "its secret stays where it is; the gateway asks for it with: \(program)"
        }
        return "\(entry.name): \(words)\n"
    }
}
