import GatewayHTTP

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

    /// Whether a URL leads to this origin with some values of its parameters. Those with a default have that.
    static func leads(_ template: String, to origin: String, defaults: [String: String]) -> Bool {
        let scheme = "https://"
        guard template.hasPrefix(scheme), origin.hasPrefix(scheme) else { return false }
        var texts = [""]
        for part in parts(of: String(template.dropFirst(scheme.count).prefix { $0 != "/" })) {
            switch part {
            case .text(let text): texts[texts.count - 1] += text
            case .parameter(let name):
                if let value = defaults[name] { texts[texts.count - 1] += value } else { texts.append("") }
            }
        }
        let host = origin.dropFirst(scheme.count)
        let (first, last) = (texts[0], texts[texts.count - 1])
        guard texts.count > 1 else { return host == first }
        // What a person chooses is part of a host, and the rest of the host says whose it is.
        return last.hasPrefix(".") && host.hasPrefix(first) && host.hasSuffix(last)
            && host.utf8.count > first.utf8.count + last.utf8.count
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

/// Reads the values of a preset's parameters: from `with` beside `preset`, else their defaults.
struct PresetValues {
    let preset: Preset
    /// The parameters that have to be known.
    let needed: Set<String>
    /// Where the configuration names the preset.
    let span: SourceSpan
    let context: ConfigContext

    /// - Parameter path: The path of the node.
    /// - Returns: Values by the names of parameters; nil where one is wrong or missing, which is reported.
    func values(in node: ConfigNode, path: ConfigPath) -> [String: ConfigNode.Scalar]? {
        let path = path.appending("with")
        guard let entries = given(in: node, path: path) else { return nil }
        var isWhole = refuseUnknown(entries, path: path)
        var values: [String: ConfigNode.Scalar] = [:]
        for parameter in preset.parameters {
            values[parameter.name] = value(of: parameter, among: entries, path: path)
            if values[parameter.name] == nil, needed.contains(parameter.name) { isWhole = false }
        }
        return isWhole ? values : nil
    }

    private func given(in node: ConfigNode, path: ConfigPath) -> [ConfigNode.Entry]? {
        switch node.entry("with")?.value.content {
        case .mapping(let own)?: return own
        case nil: return []
        case .scalar(let scalar)? where scalar.isNull: return []
        case .scalar?, .sequence?:
            context.error("expected a mapping of parameters", at: node.entry("with")?.value.span ?? span, path: path)
            return nil
        }
    }

    /// - Returns: Whether all names are those of parameters.
    private func refuseUnknown(_ entries: [ConfigNode.Entry], path: ConfigPath) -> Bool {
        let names = preset.parameters.map(\.name)
        let unknown = entries.filter { !names.contains($0.key) }
        for entry in unknown {
            let known = names.isEmpty ? "; it has none" : Suggestion.hint(for: entry.key, in: names)
            let fault = "the preset \(preset.name) has no parameter \"\(ShownKey(entry.key).text)\"\(known)"
            context.error(fault, at: entry.keySpan, path: path)
        }
        return unknown.isEmpty
    }

    private func value(
        of parameter: Preset.Parameter,
        among entries: [ConfigNode.Entry],
        path: ConfigPath
    ) -> ConfigNode.Scalar? {
        if let entry = entries.first(where: { $0.key == parameter.name }), !entry.value.isNull {
            return value(entry, of: parameter, path: path.appending(entry.key))
        }
        if let text = parameter.defaultValue { return ConfigNode.Scalar(text: text, isQuoted: false) }
        guard needed.contains(parameter.name) else { return nil }
        let diagnostic = ConfigDiagnostic(
            .error,
            "the preset \(preset.name) needs \"\(parameter.name)\": \(parameter.what)",
            at: span,
            path: path,
            example: ["with: {\(parameter.name): \(parameter.example)}"]
        )
        context.report(diagnostic)
        return nil
    }

    private func value(
        _ entry: ConfigNode.Entry,
        of parameter: Preset.Parameter,
        path: ConfigPath
    ) -> ConfigNode.Scalar? {
        guard case .scalar(let scalar) = entry.value.content else {
            context.error("expected a string, found \(entry.value.kindName)", at: entry.value.span, path: path)
            return nil
        }
        // It becomes a part of URLs and header fields.
        guard !scalar.text.isEmpty, scalar.text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            context.error(
                "must contain only visible ASCII characters, without spaces",
                at: entry.value.span,
                path: path
            )
            return nil
        }
        if let fault = hostFault(scalar.text, of: parameter) {
            context.error(fault, at: entry.value.span, path: path)
            return nil
        }
        return scalar
    }

    /// What would lead the preset's URLs to another host than is meant.
    private func hostFault(_ text: String, of parameter: Preset.Parameter) -> String? {
        let nodes = [preset.credential] + preset.routes.map(\.node)
        let suffixes = Set(nodes.flatMap { PresetTemplate.hosts(of: $0)[parameter.name] ?? [] })
        guard !suffixes.isEmpty else { return nil }
        guard !text.contains(where: { "/?#@\\".contains($0) }) else {
            return "must be only a host, without https:// or a path: \(parameter.example)"
        }
        guard let suffix = suffixes.sorted().first(where: { !$0.isEmpty && text.lowercased().hasSuffix($0) }) else {
            return nil
        }
        return "must be only the part before \"\(suffix)\": \(parameter.example)"
    }
}
