package import GatewayCore

/// Reads the YAML of presets.
package enum PresetLoader {
    /// - Returns: The presets without a mistake, and what is wrong with the others.
    package static func load(
        _ bytes: [UInt8],
        named name: String,
        file: Int = 0
    ) -> (presets: [Preset], diagnostics: [ConfigDiagnostic]) {
        let text = YAMLLoader().load(bytes, file: file)
        guard let root = text.root else { return ([], text.diagnostics) }
        let file = ConfigDocument.File(name: name, directory: "", lines: text.lines)
        let document = ConfigDocument(files: [file], root: root)
        let context = ConfigContext(document: document, secrets: UnreadSecrets())
        let presets = PresetDecoder.decode(root, context: context)
        return (presets, text.diagnostics + context.diagnostics)
    }
}

extension ConfigLoader {
    /// The presets of the folder that the configuration names.
    ///
    /// A mistake in one of them is reported at `presets`, with the file and line in the message. Files that other users could have
    /// written are not read: a preset says where a secret goes.
    /// - Parameter known: What was reported before is not reported again.
    package func ownPresets(
        of document: ConfigDocument,
        after known: [ConfigDiagnostic] = []
    ) -> (library: PresetLibrary, diagnostics: [ConfigDiagnostic]) {
        guard case .mapping(let entries) = document.root.content,
            let entry = entries.first(where: { $0.key == "presets" }),
            case .scalar(let scalar) = entry.value.content, !scalar.isNull
        else { return (PresetLibrary(), []) }
        let context = ConfigContext(document: document, secrets: UnreadSecrets())
        let folder = context.resolve(scalar.text, at: entry.value.span)
        var reading = PresetFolderReading(files: files, strictModes: strictModes, span: entry.value.span, known: known)
        reading.read(folder)
        return (PresetLibrary(reading.presets), reading.diagnostics)
    }
}

/// Reads a folder of presets.
private struct PresetFolderReading {
    private static let maximumFiles = 256

    let files: any ConfigFileSource
    let strictModes: Bool
    /// Of the folder's name in the configuration.
    let span: SourceSpan
    let known: [ConfigDiagnostic]
    private(set) var presets: [Preset] = []
    private(set) var diagnostics: [ConfigDiagnostic] = []

    init(files: any ConfigFileSource, strictModes: Bool, span: SourceSpan, known: [ConfigDiagnostic]) {
        self.files = files
        self.strictModes = strictModes
        self.span = span
        self.known = known
    }

    mutating func read(_ folder: String) {
        var places = files.places(on: folder)
        if let last = places.indices.last { places[last].kind = .listedFolder }
        guard isTrusted(places) else { return }
        let names = files.names(in: folder).filter { $0.hasSuffix(".yaml") && !$0.hasPrefix(".") }.sorted()
        if names.isEmpty { report("the folder has no *.yaml file, or cannot be read") }
        if names.count > Self.maximumFiles { report("more than \(Self.maximumFiles) files") }
        for name in names.prefix(Self.maximumFiles) where isTrusted(files.places(on: "\(folder)/\(name)")) {
            readFile(name, in: folder)
        }
    }

    private mutating func readFile(_ name: String, in folder: String) {
        let bytes: [UInt8]
        do throws(ConfigFileError) {
            bytes = try files.read("\(folder)/\(name)", limit: YAMLLoader().limits.bytes + 1)
        } catch {
            return report("\(name): \(error.message)")
        }
        let loaded = PresetLoader.load(bytes, named: name)
        for diagnostic in loaded.diagnostics {
            let key = diagnostic.path.description.isEmpty ? "" : "\(diagnostic.path): "
            report("\(name):\(diagnostic.span.line): \(key)\(diagnostic.message)", diagnostic.severity)
        }
        for preset in loaded.presets where presets.contains(where: { $0.name == preset.name }) {
            report("\(name): the preset \(preset.name) is in another file, too")
        }
        presets += loaded.presets
    }

    /// - Returns: false when another user could have written what would be read.
    private mutating func isTrusted(_ places: [FilePlace]) -> Bool {
        let findings = places.compactMap { FileModeRule.finding(of: $0, isStrict: strictModes) }
        for finding in findings { report(finding.message, finding.severity, command: finding.command) }
        return !findings.contains { $0.severity == .error }
    }

    private mutating func report(
        _ message: String,
        _ severity: ConfigDiagnostic.Severity = .error,
        command: String? = nil
    ) {
        guard !(known + diagnostics).contains(where: { $0.message == message }) else { return }
        let path = ConfigPath.root.appending("presets")
        var diagnostic = ConfigDiagnostic(severity, message, at: span, path: path)
        diagnostic.command = command
        diagnostics.append(diagnostic)
    }
}
