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
    private static let maximumPresetFiles = 256

    /// The presets of the folder that the configuration names.
    ///
    /// A mistake in one of them is reported at `presets`, with the file and line in the message.
    package func ownPresets(of document: ConfigDocument) -> (library: PresetLibrary, diagnostics: [ConfigDiagnostic]) {
        guard case .mapping(let entries) = document.root.content,
            let entry = entries.first(where: { $0.key == "presets" }),
            case .scalar(let scalar) = entry.value.content, !scalar.isNull
        else { return (PresetLibrary(), []) }
        let context = ConfigContext(document: document, secrets: UnreadSecrets())
        let folder = context.resolve(scalar.text, at: entry.value.span)
        var presets: [Preset] = []
        var diagnostics: [ConfigDiagnostic] = []
        func report(_ message: String, _ severity: ConfigDiagnostic.Severity = .error) {
            let path = ConfigPath.root.appending("presets")
            diagnostics.append(ConfigDiagnostic(severity, message, at: entry.value.span, path: path))
        }
        let names = files.names(in: folder).filter { $0.hasSuffix(".yaml") && !$0.hasPrefix(".") }.sorted()
        if names.isEmpty { report("the folder has no *.yaml file, or cannot be read") }
        if names.count > Self.maximumPresetFiles { report("more than \(Self.maximumPresetFiles) files") }
        for name in names.prefix(Self.maximumPresetFiles) {
            let bytes: [UInt8]
            do throws(ConfigFileError) {
                bytes = try files.read("\(folder)/\(name)", limit: YAMLLoader().limits.bytes + 1)
            } catch {
                report("\(name): \(error.message)")
                continue
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
        return (PresetLibrary(presets), diagnostics)
    }
}
