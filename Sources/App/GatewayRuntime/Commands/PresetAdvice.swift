import GatewayCore

/// What to do after the entries of a preset were written.
struct PresetAdvice: Sendable {
    private let preset: Preset
    private let entries: PresetEntries

    init(_ preset: Preset, entries: PresetEntries) {
        self.preset = preset
        self.entries = entries
    }

    var text: String {
        var lines: [String] = []
        // Those that still come from a variable.
        for need in preset.needs
        where entries.credential.lines.contains(where: { $0.hasSuffix("{env: \(need.variable)}") }) {
            guard Console.environment(need.variable) == nil else { continue }
            let page = need.page.map { " (\($0))" } ?? ""
            lines.append("Set \(need.variable) where the gateway starts: \(need.text)\(page).")
        }
        if let note = preset.note { lines.append(note) }
        return lines.map { "\($0)\n" }.joined()
    }
}
