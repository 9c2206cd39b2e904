import GatewayConfiguration
import GatewayHTTP

/// Finds out what a decoder knows by decoding made-up documents until it asks for nothing new.
struct SchemaProbe {
    private static let rounds = 8
    private static let span = SourceSpan(file: 0, line: 1, column: 1)
    /// The name of everything that has a name.
    static let name = "probe"

    /// - Parameters:
    ///   - fixed: Entries that every document has.
    ///   - decode: Decodes a document that is made up and mostly wrong.
    static func explore(
        fixed: [String: String] = [:],
        _ decode: (ConfigNode, KeyRecorder) -> Void
    ) -> KeyRecorder.Node {
        let recorder = KeyRecorder()
        // A document that was decoded before asks for nothing new.
        var decoded: Set<ConfigNode> = []
        func run(_ document: ConfigNode) {
            guard decoded.insert(document).inserted else { return }
            decode(with(fixed, document), recorder)
            recorder.endRun()
        }
        run(mapping([]))
        var size = 0
        for _ in 0..<rounds {
            run(everything(recorder.root))
            for document in singles(recorder.root) { run(document) }
            let new = count(recorder.root)
            if new == size { break }
            size = new
        }
        return recorder.root
    }

    private static func with(_ fixed: [String: String], _ document: ConfigNode) -> ConfigNode {
        guard case .mapping(let entries) = document.content else { return document }
        let own = fixed.sorted { $0.key < $1.key }.map { entry($0.key, scalar($0.value)) }
        return mapping(own + entries.filter { fixed[$0.key] == nil })
    }

    private static func count(_ node: KeyRecorder.Node) -> Int {
        let below = node.children.values.reduce(0) { $0 + 1 + count($1) }
        return below + node.kinds.count + (node.items.map { 1 + count($0) } ?? 0)
            + (node.values.map { 1 + count($0) } ?? 0)
    }

    // MARK: Documents

    /// All that is known at once.
    private static func everything(_ node: KeyRecorder.Node) -> ConfigNode {
        if node.isMapping, !node.kinds.contains(.secret) {
            let named = node.values.map { [entry(name, everything($0))] } ?? []
            let own = node.keys.compactMap { key in node.children[key].map { entry(key, everything($0)) } }
            return mapping(own + named)
        }
        return sample(node)
    }

    /// For each place a document with nothing but the way there and what its mappings require.
    private static func singles(_ node: KeyRecorder.Node) -> [ConfigNode] {
        let needed = (node.required ?? []).sorted().compactMap { key in
            node.children[key].map { entry(key, everything($0)) }
        }
        var documents: [ConfigNode] = [mapping([]), mapping(needed)]
        documents += (node.values.map(forms) ?? []).map { mapping(needed + [entry(name, $0)]) }
        let all = node.keys.compactMap { key in node.children[key].map { entry(key, everything($0)) } }
        for key in node.keys {
            guard let child = node.children[key] else { continue }
            // What excludes each other hides what goes with one of them.
            documents.append(mapping(all.filter { $0.key != key }))
            let others = needed.filter { $0.key != key }
            for form in forms(child) {
                documents.append(mapping([entry(key, form)]))
                documents.append(mapping(others + [entry(key, form)]))
                // Some keys are only read where a word of another key asks for them.
                if child.isChoice { documents.append(mapping(all.filter { $0.key != key } + [entry(key, form)])) }
            }
        }
        return documents
    }

    /// What may stand in a place: the kinds that were asked for, and everything where none was.
    private static func forms(_ node: KeyRecorder.Node) -> [ConfigNode] {
        if node.isMapping, !node.kinds.contains(.secret) {
            // Some places take a mapping or a list of them.
            let elements = node.items.map { forms($0) } ?? [mapping([])]
            return singles(node) + [sample(node)] + elements.map { ConfigNode(.sequence([$0]), at: span) }
        }
        for case .choice(let words) in node.kinds { return words.map(scalar) }
        guard node.kinds.isEmpty || node.kinds == [.sequence] else { return [sample(node)] }
        let items = node.items.map { forms($0) } ?? [scalar(name)]
        let sequences = (items + [mapping([])]).map { ConfigNode(.sequence([$0]), at: span) }
        return node.kinds.isEmpty ? [scalar(name), mapping([])] + sequences : sequences
    }

    private static func sample(_ node: KeyRecorder.Node) -> ConfigNode {
        for kind in node.kinds {
            switch kind {
            case .scalar, .mapping, .readText: continue
            case .string, .secret, .secrets, .scalarOrStrings: return scalar(name)
            case .bool: return scalar("true")
            case .integer(let range), .size(let range): return scalar(String(range.lowerBound))
            case .choice(let words): return scalar(words.first ?? "")
            case .duration(let range): return scalar(ConfigUnits.text(range?.lowerBound ?? .seconds(1)))
            case .percent(let range): return scalar("\(range.lowerBound)%")
            case .url: return scalar("https://probe.example/probe")
            case .strings: return ConfigNode(.sequence([scalar(name)]), at: span)
            case .sequence: return ConfigNode(.sequence([node.items.map(everything) ?? scalar(name)]), at: span)
            }
        }
        return scalar(name)
    }

    static func scalar(_ text: String) -> ConfigNode {
        ConfigNode(.scalar(ConfigNode.Scalar(text: text, isQuoted: false)), at: span)
    }

    static func mapping(_ entries: [ConfigNode.Entry]) -> ConfigNode { ConfigNode(.mapping(entries), at: span) }

    static func entry(_ key: String, _ value: ConfigNode) -> ConfigNode.Entry {
        ConfigNode.Entry(key: key, keySpan: span, value: value)
    }
}

extension KeyRecorder.Node {
    fileprivate var isChoice: Bool {
        kinds.contains { if case .choice = $0 { true } else { false } }
    }
}

/// Has an answer to everything, so that decoders go on.
struct ProbeSecrets: SecretSource {
    func environment(_ name: String) -> String? { SchemaProbe.name }
    func file(_ path: String) throws(UnusableInput) -> Secret { Secret(SchemaProbe.name) }
    func program(_ program: SecretProgram) throws(UnusableInput) -> Secret {
        Secret(SchemaProbe.name)
    }
    func systemdCredential(_ name: String) throws(UnusableInput) -> Secret { Secret(SchemaProbe.name) }
    func certificates(_ path: String) throws(UnusableInput) -> String { SchemaProbe.name }
    func fits(_ tls: ClientTLS) -> Bool { true }
}
