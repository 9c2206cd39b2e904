import GatewayCore

/// What to do after the entries of a preset were written.
struct PresetAdvice: Sendable {
    let needs: [Preset.Need]
    let note: String?
    let entries: PresetEntries

    init(needs: [Preset.Need], note: String?, entries: PresetEntries) {
        self.needs = needs
        self.note = note
        self.entries = entries
    }

    init(_ preset: Preset, entries: PresetEntries) {
        self.init(needs: preset.needs, note: preset.note, entries: entries)
    }

    var text: String {
        var lines: [String] = []
        // Those that still come from a variable.
        for need in needs
        where entries.credential.lines.contains(where: { $0.hasSuffix("{env: \(need.variable)}") }) {
            guard Console.environment(need.variable) == nil else { continue }
            let page = need.page.map { " (\($0))" } ?? ""
            lines.append("Set \(need.variable) where the gateway starts: \(need.text)\(page).")
        }
        if let note { lines.append(note) }
        return lines.map { "\($0)\n" }.joined()
    }
}
