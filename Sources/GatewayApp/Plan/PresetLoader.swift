package import GatewayConfiguration
import GatewayHTTP

/// Reads the YAML of presets.
enum PresetLoader {
    /// - Returns: The presets without a mistake, and what is wrong with the others.
    static func load(
        _ bytes: [UInt8],
        named name: String,
        file: Int = 0
    ) -> (presets: [Preset], diagnostics: [ConfigDiagnostic]) {
        let text = YAMLLoader().load(bytes, file: file)
        guard let root = text.root else { return ([], text.diagnostics) }
        let file = ConfigDocument.File(name: name, path: "", lines: text.lines)
        let document = ConfigDocument(files: [file], root: root)
        let context = ConfigContext(document: document, secrets: UnreadSecrets())
        let presets = PresetDecoder.decode(root, context: context)
        return (presets, text.diagnostics + context.diagnostics)
    }
}

/// Presets of one's own (`presets`).
extension ConfigLoader {
    static let maximumPresetFiles = 256

    /// The presets of the folder that the configuration names.
    ///
    /// A mistake in one of them is reported at `presets`, with the file and line in the message.
    package func ownPresets(of loading: Loading) -> (library: PresetLibrary, diagnostics: [ConfigDiagnostic]) {
        guard let document = loading.document, case .mapping(let entries) = document.root.content,
            let entry = entries.first(where: { $0.key == "presets" }),
            case .scalar(let scalar) = entry.value.content, !scalar.isNull
        else { return (PresetLibrary(), []) }
        let context = ConfigContext(document: document, secrets: UnreadSecrets())
        let folder = context.resolve(scalar.text, at: entry.value.span)
        var reading = PresetReading(span: entry.value.span, state: State(modes: loading.modes))
        readPresets(in: folder, into: &reading)
        return (PresetLibrary(reading.presets), reading.state.diagnostics)
    }

    private func readPresets(in folder: String, into reading: inout PresetReading) {
        let all = trustedNames(in: folder, at: reading.span, path: PresetReading.path, into: &reading.state)
        guard let names = all?.filter({ $0.hasSuffix(".yaml") && !$0.hasPrefix(".") }).sorted() else { return }
        if names.isEmpty { reading.report("the folder has no *.yaml file, or cannot be read") }
        if names.count > Self.maximumPresetFiles { reading.report("more than \(Self.maximumPresetFiles) files") }
        for name in names.prefix(Self.maximumPresetFiles) {
            do throws(ConfigFileError) {
                let file = "\(folder)/\(name)"
                let bytes = try readTrusted(file, at: reading.span, path: PresetReading.path, into: &reading.state)
                if let bytes { reading.add(bytes, named: name) }
            } catch {
                reading.report("\(name): \(error.message)")
            }
        }
    }
}

/// What was read of a folder of presets so far.
private struct PresetReading {
    static let path = ConfigPath.root.appending("presets")

    /// Where the configuration names the folder.
    let span: SourceSpan
    var state: ConfigLoader.State
    private(set) var presets: [Preset] = []

    mutating func report(_ message: String, _ severity: ConfigDiagnostic.Severity = .error) {
        state.diagnostics.append(ConfigDiagnostic(severity, message, at: span, path: Self.path))
    }

    mutating func add(_ bytes: [UInt8], named name: String) {
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
}
