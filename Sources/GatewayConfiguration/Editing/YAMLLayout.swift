/// Where the nodes of a text stand, with anchors and aliases as they are written. ``YAMLComposer`` resolves them.
struct YAMLLayout: Sendable {
    indirect enum Kind: Sendable {
        case scalar(isEmpty: Bool)
        case alias(String)
        case mapping([Entry], isFlow: Bool)
        case sequence([Node], isFlow: Bool)
    }

    struct Node: Sendable {
        let kind: Kind
        let anchor: String?
        /// Where its anchor begins, or its text without one.
        let start: YAMLEvent.Mark
        /// Behind its last character.
        let end: YAMLEvent.Mark
        /// Whether it is a scalar over several lines that break where they do in the text.
        var isBlockScalar = false
    }

    struct Entry: Sendable {
        let key: String
        let keyStart: YAMLEvent.Mark
        let keyEnd: YAMLEvent.Mark
        let value: Node

        /// The index of its first line, and of its last one that is no comment.
        var lines: ClosedRange<Int> { (keyStart.line - 1)...max(keyStart.line - 1, value.end.lastLine) }
    }

    let root: Node

    /// - Parameter bytes: What ``YAMLLoader`` has read without a problem, so that it is bounded and well-formed.
    init?(_ bytes: [UInt8]) {
        guard let parser = YAMLEventParser(bytes) else { return nil }
        var reader = Reader(parser: parser)
        do throws(YAMLSyntaxError) {
            while true {
                let event = try parser.next()
                switch event.kind {
                case .streamStart, .documentStart: continue
                case .streamEnd, .documentEnd: return nil
                default:
                    guard let node = try reader.node(event) else { return nil }
                    root = node
                    return
                }
            }
        } catch {
            return nil
        }
    }

    private struct Reader {
        let parser: YAMLEventParser

        mutating func node(_ event: YAMLEvent) throws(YAMLSyntaxError) -> Node? {
            switch event.kind {
            case .alias(let name): return Node(kind: .alias(name), anchor: nil, start: event.start, end: event.end)
            case .scalar(let text, let isPlain, let properties):
                let isEmpty = isPlain && text.isEmpty && event.start == event.end
                // A block scalar ends where the next line begins. Its last line breaks are a part of it only with "+".
                let isBlock = !isPlain && event.end.column == 1 && event.end.line > event.start.line
                let kind = Kind.scalar(isEmpty: isEmpty)
                var node = Node(kind: kind, anchor: properties.anchor, start: event.start, end: event.end)
                node.isBlockScalar = isBlock && !text.hasSuffix("\n\n")
                return node
            case .sequenceStart(let isFlow, let properties):
                return try sequence(event, isFlow: isFlow, properties.anchor)
            case .mappingStart(let isFlow, let properties):
                return try mapping(event, isFlow: isFlow, properties.anchor)
            default: return nil
            }
        }

        private mutating func sequence(
            _ start: YAMLEvent,
            isFlow: Bool,
            _ anchor: String?
        ) throws(YAMLSyntaxError) -> Node? {
            var elements: [Node] = []
            while true {
                let event = try parser.next()
                if case .sequenceEnd = event.kind {
                    let end = isFlow ? event.end : elements.last?.end ?? start.end
                    let kind = Kind.sequence(elements, isFlow: isFlow)
                    return Node(kind: kind, anchor: anchor, start: start.start, end: end)
                }
                guard let element = try node(event) else { return nil }
                elements.append(element)
            }
        }

        private mutating func mapping(
            _ start: YAMLEvent,
            isFlow: Bool,
            _ anchor: String?
        ) throws(YAMLSyntaxError) -> Node? {
            var entries: [Entry] = []
            while true {
                let event = try parser.next()
                if case .mappingEnd = event.kind {
                    let end = isFlow ? event.end : entries.last?.value.end ?? start.end
                    let kind = Kind.mapping(entries, isFlow: isFlow)
                    return Node(kind: kind, anchor: anchor, start: start.start, end: end)
                }
                guard case .scalar(let key, _, _) = event.kind, let value = try node(try parser.next()) else {
                    return nil
                }
                entries.append(Entry(key: key, keyStart: event.start, keyEnd: event.end, value: value))
            }
        }
    }
}

extension YAMLEvent.Mark: Comparable {
    static func < (lhs: Self, rhs: Self) -> Bool { (lhs.line, lhs.column) < (rhs.line, rhs.column) }

    /// The index of the line that what ends here has its last character in.
    fileprivate var lastLine: Int { column == 1 ? line - 2 : line - 1 }
}

extension YAMLLayout.Node {
    var entries: [YAMLLayout.Entry]? {
        guard case .mapping(let entries, _) = kind else { return nil }
        return entries
    }

    var isFlow: Bool {
        switch kind {
        case .mapping(_, let isFlow), .sequence(_, let isFlow): isFlow
        case .scalar, .alias: false
        }
    }

    /// This node and all below it, in the order of the text.
    private var all: [YAMLLayout.Node] {
        switch kind {
        case .scalar, .alias: [self]
        case .mapping(let entries, _): [self] + entries.flatMap(\.value.all)
        case .sequence(let elements, _): [self] + elements.flatMap(\.all)
        }
    }

    var anchors: Set<String> { Set(all.compactMap(\.anchor)) }

    var aliases: [(name: String, place: YAMLEvent.Mark)] {
        all.compactMap { node in
            guard case .alias(let name) = node.kind else { return nil }
            return (name, node.start)
        }
    }
}
