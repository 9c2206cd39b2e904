/// Fills the parameters of a preset into its keys.
struct PresetTemplate {
    let values: [String: ConfigNode.Scalar]
    /// Where the configuration names the preset: what is said about a key of the preset is said there.
    let span: SourceSpan

    func filled(_ node: ConfigNode) -> ConfigNode {
        switch node.content {
        case .scalar(let scalar): ConfigNode(.scalar(filled(scalar)), at: span)
        case .sequence(let nodes): ConfigNode(.sequence(nodes.map(filled)), at: span)
        case .mapping(let entries):
            ConfigNode(
                .mapping(entries.map { ConfigNode.Entry(key: $0.key, keySpan: span, value: filled($0.value)) }),
                at: span
            )
        }
    }

    private func filled(_ scalar: ConfigNode.Scalar) -> ConfigNode.Scalar {
        var result = scalar
        result.text = ""
        for part in Self.parts(of: scalar.text) {
            switch part {
            case .text(let text): result.text += text
            case .parameter(let name):
                guard let value = values[name] else { continue }
                result.text += value.text
                if value.isInterpolated { result.isInterpolated = true }
                if value.isUnset { result.isUnset = true }
            }
        }
        return result
    }

    // MARK: Parameters of a text

    private enum Part {
        case text(Substring)
        case parameter(String)
    }

    /// `${NAME}` is a parameter; anything else is text.
    private static func parts(of text: String) -> [Part] {
        var parts: [Part] = []
        var rest = Substring(text)
        while let start = rest.firstRange(of: "${"), let end = rest[start.upperBound...].firstIndex(of: "}") {
            parts.append(.text(rest[..<start.lowerBound]))
            parts.append(.parameter(String(rest[start.upperBound..<end])))
            rest = rest[rest.index(after: end)...]
        }
        return parts + [.text(rest)]
    }

    /// The parameters that the texts of a node name.
    static func parameters(of node: ConfigNode) -> Set<String> {
        switch node.content {
        case .scalar(let scalar):
            Set(parts(of: scalar.text).compactMap { if case .parameter(let name) = $0 { name } else { nil } })
        case .sequence(let nodes): nodes.reduce(into: []) { $0.formUnion(parameters(of: $1)) }
        case .mapping(let entries): entries.reduce(into: []) { $0.formUnion(parameters(of: $1.value)) }
        }
    }
}
