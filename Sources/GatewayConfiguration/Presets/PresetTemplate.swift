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

    /// The parameters that a URL begins its host with, and what follows them in the host: nothing, or for example
    /// `.zendesk.com`.
    static func hosts(of node: ConfigNode) -> [String: Set<String>] {
        switch node.content {
        case .scalar(let scalar): host(of: parts(of: scalar.text))
        case .sequence(let nodes): merged(nodes.map(hosts))
        case .mapping(let entries): merged(entries.map { hosts(of: $0.value) })
        }
    }

    private static func merged(_ hosts: [[String: Set<String>]]) -> [String: Set<String>] {
        hosts.reduce(into: [:]) { $0.merge($1) { $0.union($1) } }
    }

    private static func host(of parts: [Part]) -> [String: Set<String>] {
        guard parts.count > 2, case .text(let scheme) = parts[0], scheme.hasSuffix("://"),
            case .parameter(let name) = parts[1], case .text(let rest) = parts[2]
        else { return [:] }
        return [name: [String(rest.prefix { $0 != "/" && $0 != ":" })]]
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
