import GatewayHTTP

/// Builds the tree from the parser's events: anchors are resolved here, and everything is counted.
struct YAMLComposer {
    private let text: SourceText
    private let limits: YAMLLimits
    private(set) var diagnostics: [ConfigDiagnostic] = []
    private var anchors: [String: Subtree] = [:]
    private var produced = 0

    /// A finished node with what it costs to use it once more.
    private struct Subtree {
        let node: ConfigNode
        let nodes: Int
        let height: Int
    }

    /// The document is refused as a whole; why is in `diagnostics`.
    private struct Refused: Error {}

    init(text: SourceText, limits: YAMLLimits) {
        self.text = text
        self.limits = limits
    }

    mutating func compose() -> ConfigNode? {
        guard let parser = YAMLEventParser(text.bytes) else { return nil }
        do throws(Refused) {
            return try document(parser)
        } catch {
            return nil
        }
    }

    private mutating func document(_ parser: YAMLEventParser) throws(Refused) -> ConfigNode {
        var root: ConfigNode?
        while true {
            let event = try next(parser)
            switch event.kind {
            case .streamStart, .documentEnd: continue
            case .documentStart:
                guard root == nil else {
                    throw refuse("only one document per file; remove this line and what follows", at: span(event))
                }
                root = try subtree(try next(parser), parser, depth: 1).node
            case .streamEnd:
                guard let root else { throw refuse("the file is empty", at: text.span(line: 1, column: 1, length: 1)) }
                return root
            default: throw refuse("not valid YAML", at: span(event))
            }
        }
    }

    private mutating func subtree(
        _ event: YAMLEvent,
        _ parser: YAMLEventParser,
        depth: Int
    ) throws(Refused) -> Subtree {
        produced += 1
        guard depth <= limits.depth else {
            throw refuse("nested deeper than \(limits.depth) levels", at: span(event))
        }
        guard produced <= limits.nodes else {
            throw refuse("more than \(limits.nodes) values", at: span(event))
        }
        switch event.kind {
        case .alias(let name): return try expand(name, at: event, depth: depth)
        case .scalar(let value, let isPlain, let properties):
            let isString = try accept(properties.tag, ofScalarAt: event)
            let scalar = ConfigNode.Scalar(text: value, isQuoted: !isPlain || isString)
            return remember(ConfigNode(.scalar(scalar), at: span(event)), properties.anchor, nodes: 1, height: 1)
        case .sequenceStart(let isFlow, let properties):
            try accept(properties.tag, ofCollectionAt: event)
            return try sequence(from: event, isFlow: isFlow, properties.anchor, parser, depth: depth)
        case .mappingStart(let isFlow, let properties):
            try accept(properties.tag, ofCollectionAt: event)
            return try mapping(from: event, isFlow: isFlow, properties.anchor, parser, depth: depth)
        default: throw refuse("not valid YAML", at: span(event))
        }
    }

    private mutating func sequence(
        from start: YAMLEvent,
        isFlow: Bool,
        _ anchor: String?,
        _ parser: YAMLEventParser,
        depth: Int
    ) throws(Refused) -> Subtree {
        let before = produced
        var elements: [ConfigNode] = []
        var height = 0
        while true {
            let event = try next(parser)
            if case .sequenceEnd = event.kind {
                let span = isFlow ? span(from: start.start, to: event.end) : span(start)
                let node = ConfigNode(.sequence(elements), at: span)
                return remember(node, anchor, nodes: produced - before + 1, height: height + 1)
            }
            let element = try subtree(event, parser, depth: depth + 1)
            elements.append(element.node)
            height = max(height, element.height)
        }
    }

    private mutating func mapping(
        from start: YAMLEvent,
        isFlow: Bool,
        _ anchor: String?,
        _ parser: YAMLEventParser,
        depth: Int
    ) throws(Refused) -> Subtree {
        let before = produced
        var entries: [ConfigNode.Entry] = []
        var places: [String: SourceSpan] = [:]
        var height = 0
        while true {
            let event = try next(parser)
            if case .mappingEnd = event.kind {
                // A block mapping has no sign of its own: its first key stands for it.
                let block = entries.first?.keySpan ?? span(start)
                let node = ConfigNode(
                    .mapping(entries),
                    at: isFlow ? span(from: start.start, to: event.end) : block
                )
                return remember(node, anchor, nodes: produced - before + 1, height: height + 1)
            }
            let key = try key(event)
            let value = try subtree(try next(parser), parser, depth: depth + 1)
            height = max(height, value.height)
            if let first = places[key.text] {
                report(
                    "duplicate key \"\(ShownKey(key.text).text)\"",
                    at: key.span,
                    related: ("first defined here", first)
                )
                guard diagnostics.count < 100 else { throw Refused() }
                continue
            }
            places[key.text] = key.span
            entries.append(ConfigNode.Entry(key: key.text, keySpan: key.span, value: value.node))
        }
    }

    private mutating func key(_ event: YAMLEvent) throws(Refused) -> (text: String, span: SourceSpan) {
        produced += 1
        guard case .scalar(let text, let isPlain, let properties) = event.kind else {
            throw refuse("a key must be a plain word, not a list, a mapping or an alias", at: span(event))
        }
        _ = try accept(properties.tag, ofScalarAt: event)
        if isPlain, text == "<<" {
            throw refuse(
                "merge keys (<<) are not supported; write the keys out, or share the whole value with &name and *name",
                at: span(event)
            )
        }
        guard !text.isEmpty, !(isPlain && (text == "~" || text == "null")) else {
            throw refuse("a key must not be empty", at: span(event))
        }
        guard text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F }) else {
            throw refuse("a key must not contain control characters", at: span(event))
        }
        return (text, span(event))
    }

    // MARK: Anchors and tags

    private mutating func remember(_ node: ConfigNode, _ anchor: String?, nodes: Int, height: Int) -> Subtree {
        let subtree = Subtree(node: node, nodes: nodes, height: height)
        if let anchor { anchors[anchor] = subtree }
        return subtree
    }

    /// The nodes of an alias keep the place where they are written: that is where a mistake in them is fixed.
    private mutating func expand(_ name: String, at event: YAMLEvent, depth: Int) throws(Refused) -> Subtree {
        guard let subtree = anchors[name] else {
            let hint = Suggestion.nearest(to: name, in: anchors.keys.sorted()).map { "; did you mean *\($0)?" } ?? ""
            throw refuse("no anchor &\(name) is defined before this alias\(hint)", at: span(event))
        }
        produced += subtree.nodes - 1
        guard produced <= limits.nodes else {
            throw refuse("aliases expand to more than \(limits.nodes) values", at: span(event))
        }
        guard depth + subtree.height - 1 <= limits.depth else {
            throw refuse("nested deeper than \(limits.depth) levels", at: span(event))
        }
        return subtree
    }

    /// - Returns: Whether the tag makes the scalar a string.
    private mutating func accept(_ tag: String?, ofScalarAt event: YAMLEvent) throws(Refused) -> Bool {
        switch tag {
        case nil: return false
        case "!", "tag:yaml.org,2002:str": return true
        default: throw refuse("tags are not supported; remove this one", at: span(event))
        }
    }

    private mutating func accept(_ tag: String?, ofCollectionAt event: YAMLEvent) throws(Refused) {
        if tag != nil { throw refuse("tags are not supported; remove this one", at: span(event)) }
    }

    // MARK: Places and problems

    private mutating func next(_ parser: YAMLEventParser) throws(Refused) -> YAMLEvent {
        do throws(YAMLSyntaxError) {
            return try parser.next()
        } catch {
            diagnostics.append(error.diagnostic(in: text))
            throw Refused()
        }
    }

    private func span(_ event: YAMLEvent) -> SourceSpan { span(from: event.start, to: event.end) }

    private func span(from start: YAMLEvent.Mark, to end: YAMLEvent.Mark) -> SourceSpan {
        let length = start.line == end.line ? end.column - start.column : Int.max
        return text.span(line: start.line, column: start.column, length: length)
    }

    private mutating func refuse(_ message: String, at span: SourceSpan) -> Refused {
        report(message, at: span)
        return Refused()
    }

    private mutating func report(_ message: String, at span: SourceSpan, related: (String, SourceSpan)? = nil) {
        diagnostics.append(
            ConfigDiagnostic(
                .error,
                message,
                at: span,
                related: related.map { ConfigDiagnostic.Related($0.0, at: $0.1) }
            )
        )
    }
}
