import GatewayApp
import GatewayConfiguration
import GatewayHTTP

/// A secret of a preset, and where the gateway reads it from.
struct PresetSecret: Equatable, Sendable {
    enum Source: Equatable, Sendable {
        case environment(String)
        /// The path as the configuration names it.
        case file(String)
        case systemd(String)
    }

    let required: Preset.RequiredSecret
    let source: Source

    var yaml: String {
        switch source {
        case .environment(let name): "{env: \(YAMLScalar.literal(name))}"
        case .file(let path): "{file: \(YAMLScalar.literal(path))}"
        case .systemd(let name): "{systemd_credential: \(YAMLScalar.literal(name))}"
        }
    }

    /// - Parameter folder: Of the configuration; absolute.
    /// - Returns: What a person has to do before the gateway can read it; nil when it can be read here.
    func advice(reading secrets: SystemSecretSource, in folder: String) -> String? {
        let page = required.where.map { " (\($0))" } ?? ""
        let what = "\(required.what)\(page)"
        switch source {
        case .environment(let name):
            guard secrets.environment(name) == nil else { return nil }
            return "Set \(LogText.clean(name)) where the gateway starts: \(what)."
        case .file(let path):
            do throws(UnusableInput) {
                _ = try secrets.file(path.hasPrefix("/") ? path : "\(folder)/\(path)")
                return nil
            } catch {
                return "The gateway cannot read \(LogText.clean(path)). Put this into it: \(what).\n  \(error.message)"
            }
        case .systemd(let name):
            guard (try? secrets.systemdCredential(name)) == nil else { return nil }
            return "Add LoadCredential=\(LogText.clean(name)):FILE to the unit of the gateway: \(what)."
        }
    }
}

extension [PresetSecret] {
    /// By the variable that the preset would read.
    var yaml: [String: String] { Dictionary(uniqueKeysWithValues: map { ($0.required.variable, $0.yaml) }) }
}

/// What to do after the entries of a preset were written.
struct PresetAdvice: Sendable {
    /// What to do about secrets that cannot be read here.
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
