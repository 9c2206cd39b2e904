import GatewayConfiguration
import GatewayCore

/// What to do after the entries of a preset were written.
struct PresetAdvice: Sendable {
    /// Of the secrets that cannot be read here.
    let missing: [String]
    /// What a person should know of the preset.
    let notes: String

    /// - Parameter configuration: The path of the main file.
    init(_ secrets: [PresetSecret], configuration: String, note: String?) {
        let folder = ConfigDocument.File.folder(of: SystemConfigFiles().absolutePath(configuration))
        let source = SystemSecretSource()
        missing = secrets.compactMap { $0.advice(reading: source, in: folder) }
        notes = note.map { "\($0)\n" } ?? ""
    }

    var text: String { missing.map { "\($0)\n" }.joined() + notes }
}
