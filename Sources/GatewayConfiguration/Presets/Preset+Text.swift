import GatewayHTTP

extension Preset {
    /// What `authgateway presets show` prints.
    package var text: String {
        var text = "\(name): \(title)\n\n"
        text += "  documentation:  \(docs)\n"
        text += "  read:           \(read ?? "unverified")\n"
        if let note { text += "  note:           \(note)\n" }
        for secret in secrets {
            text += "\n  \(secret.variable)\n    \(secret.what)\n"
            if let page = secret.where { text += "    \(page)\n" }
        }
        for parameter in parameters {
            let defaultValue = parameter.defaultValue.map { " (default: \($0))" } ?? ""
            text +=
                "\n  with.\(parameter.name)\(defaultValue)\n    \(parameter.what), for example \(parameter.example)\n"
        }
        let examples = parameters.filter { $0.defaultValue == nil }.map { ($0.name, $0.example) }
        let entries = PresetEntries(self, as: name, parameters: Dictionary(uniqueKeysWithValues: examples))
        let lines = entries.text.split(separator: "\n").map { "    \($0)\n" }.joined()
        return text + "\n  In gateway.yaml, as `\(GatewayCommand.line("add", name))` writes it:\n\n" + lines
    }
}

/// As `authgateway presets list --json` prints it.
extension Preset: Encodable {
    private enum CodingKeys: String, CodingKey {
        case name, title, words, docs, read, note, parameters, secrets, routes, strategy
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
        try container.encode(title, forKey: .title)
        try container.encode(words, forKey: .words)
        try container.encode(docs, forKey: .docs)
        try container.encode(read ?? "unverified", forKey: .read)
        try container.encodeIfPresent(note, forKey: .note)
        try container.encodeIfPresent(strategy, forKey: .strategy)
        try container.encode(parameters, forKey: .parameters)
        try container.encode(secrets, forKey: .secrets)
        try container.encode(routes.map(\.name), forKey: .routes)
    }
}
