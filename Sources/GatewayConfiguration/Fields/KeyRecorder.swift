/// What decoders were seen to ask for: which keys there are and what each takes. The source of the JSON Schema.
///
/// Confined to the task that decodes, like the context it belongs to.
package final class KeyRecorder {
    package enum Kind: Hashable {
        case scalar
        case string
        case bool
        case integer(ClosedRange<Int>)
        case choice([String])
        case duration(ClosedRange<Duration>?)
        case size(ClosedRange<Int>)
        case percent(ClosedRange<Int>)
        case url
        case secret
        /// One, or a list with a maximum number of them.
        case secrets(Int)
        /// A text that may come from where secrets come from.
        case readText
        case mapping
        case sequence
        case strings
        case scalarOrStrings
    }

    /// One place of the configuration.
    package final class Node {
        package var kinds: [Kind] = []
        /// In the order of first mention.
        package var keys: [String] = []
        package var children: [String: Node] = [:]
        package var items: Node?
        /// What stands behind the keys that are names which people choose.
        package var values: Node?
        /// Whether those names follow the rule of `ConfigName`.
        package var hasPlainNames = false
        /// What its keys mean, by key; `*` stands for names that people choose.
        package var meanings: [String: KeyMeaning] = [:]
        /// Any other key is refused.
        package var isClosed = false
        /// What was missed whenever it was not there; nil before the mapping was first decoded.
        package var required: Set<String>?
        fileprivate var missed: Set<String> = []
        fileprivate var present: Set<String> = []
        fileprivate var isVisited = false

        package var isMapping: Bool { !isReadText && (required != nil || kinds.contains(.mapping) || values != nil) }

        /// Whether any text may stand there, also one that comes from where secrets come from.
        package var isReadText: Bool {
            kinds.contains(.readText)
                && !kinds.contains { kind in
                    if case .choice = kind { true } else { kind == .mapping }
                }
        }

        package func child(_ key: String) -> Node {
            if let child = children[key] { return child }
            if let values { return values }
            let child = Node()
            children[key] = child
            keys.append(key)
            return child
        }

        fileprivate func endRun() {
            if isVisited {
                required = required.map { $0.filter { missed.contains($0) || present.contains($0) } } ?? missed
            }
            (isVisited, missed, present) = (false, [], [])
        }
    }

    package let root = Node()
    private var places: [ConfigPath: Node] = [:]
    /// What has to be settled when the document ends.
    private var visited: [Node] = []

    package init() {}

    /// A mapping is about to be decoded.
    func visit(_ path: ConfigPath, keys: [String]) {
        let node = node(at: path)
        if !node.isVisited { visited.append(node) }
        node.isVisited = true
        node.present.formUnion(keys)
    }

    func explain(_ meanings: [String: KeyMeaning], of path: ConfigPath) {
        node(at: path).meanings.merge(meanings) { _, new in new }
    }

    func know(_ key: String, of path: ConfigPath) { _ = node(at: path).child(key) }

    package func note(_ kind: Kind, for key: String, of path: ConfigPath) {
        let node = node(at: path).child(key)
        if !node.kinds.contains(kind) { node.kinds.append(kind) }
    }

    func miss(_ key: String, of path: ConfigPath) {
        let node = node(at: path)
        if node.isVisited { node.missed.insert(key) }
    }

    /// The keys of this mapping are names, apart from those that were asked for before this call.
    ///
    /// - Parameter plain: Whether the rule of `ConfigName` holds for them.
    func noteNames(of path: ConfigPath, plain: Bool) {
        let node = node(at: path)
        if node.values == nil { node.values = Node() }
        node.hasPlainNames = plain
    }

    /// Unknown keys of this mapping are refused.
    func noteClosed(_ path: ConfigPath) { node(at: path).isClosed = true }

    /// One document has been decoded to its end.
    package func endRun() {
        for node in visited { node.endRun() }
        visited.removeAll(keepingCapacity: true)
    }

    /// Keys have no dots and brackets where this is used: in probes.
    private func node(at path: ConfigPath) -> Node {
        if let node = places[path] { return node }
        var node = root
        defer { places[path] = node }
        for part in path.description.split(separator: ".") {
            let pieces = part.split(separator: "[", omittingEmptySubsequences: false)
            if let key = pieces.first, !key.isEmpty { node = node.child(String(key)) }
            for _ in pieces.dropFirst() {
                let items = node.items ?? Node()
                node.items = items
                node = items
            }
        }
        return node
    }
}
