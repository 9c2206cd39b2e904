package import GatewayConfiguration
package import GatewayHTTP

/// A piece of configuration written as Swift literals, in the order of the source.
///
///     let fields = ConfigFields.fixture(["client_id": "app", "subject": ["user": "42"], "scopes": ["read"]])
package struct FixtureNode: ExpressibleByStringLiteral, ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, Sendable,
    CustomStringConvertible
{
    private indirect enum Content: Sendable {
        case text(String, isQuoted: Bool)
        case sequence([FixtureNode])
        case mapping([(String, FixtureNode)])
    }

    private let content: Content

    /// A scalar as it would stand in quotes.
    package init(stringLiteral value: String) { content = .text(value, isQuoted: true) }

    /// A scalar as it would stand without quotes.
    package init(integerLiteral value: Int) { content = .text(String(value), isQuoted: false) }
    package init(booleanLiteral value: Bool) { content = .text(String(value), isQuoted: false) }
    package init(arrayLiteral elements: FixtureNode...) { content = .sequence(elements) }
    package init(dictionaryLiteral elements: (String, FixtureNode)...) { content = .mapping(elements) }

    /// A plain scalar: null when it is empty, a number when it looks like one.
    package static func plain(_ text: String) -> FixtureNode { FixtureNode(.text(text, isQuoted: false)) }

    package static func mapping(_ entries: [(String, FixtureNode)]) -> FixtureNode { FixtureNode(.mapping(entries)) }

    package static func sequence(_ elements: [FixtureNode]) -> FixtureNode { FixtureNode(.sequence(elements)) }

    private init(_ content: Content) { self.content = content }

    package var description: String {
        switch content {
        case .text(let text, _): text
        case .sequence(let elements): "\(elements)"
        case .mapping(let entries): "{" + entries.map { "\($0.0): \($0.1)" }.joined(separator: ", ") + "}"
        }
    }

    package var node: ConfigNode {
        let span = SourceSpan(file: 0, line: 1, column: 1)
        switch content {
        case .text(let text, let isQuoted):
            return ConfigNode(.scalar(ConfigNode.Scalar(text: text, isQuoted: isQuoted)), at: span)
        case .sequence(let elements):
            return ConfigNode(.sequence(elements.map(\.node)), at: span)
        case .mapping(let elements):
            let entries = elements.map { ConfigNode.Entry(key: $0.0, keySpan: span, value: $0.1.node) }
            return ConfigNode(.mapping(entries), at: span)
        }
    }
}

extension ConfigFields {
    /// The fields of `mapping` at `path`; what is wrong, such as a fixture that is no mapping, ends up in ``problems``.
    package static func fixture(
        _ mapping: FixtureNode,
        path: ConfigPath = .root,
        secrets: any SecretSource = FixtureSecrets()
    ) -> ConfigFields {
        let root = mapping.node
        let file = ConfigDocument.File(name: "gateway.yaml", path: "", lines: [])
        let context = ConfigContext(document: ConfigDocument(files: [file], root: root), secrets: secrets)
        if let fields = ConfigFields(root, path: path, context: context) { return fields }
        return ConfigFields(entries: [], at: root.span, path: path, context: context)
    }

    /// The texts of all problems so far, warnings left out.
    package var problems: [String] {
        context.diagnostics.filter { $0.severity == .error }.map { diagnostic in
            let path = diagnostic.path.description
            return path.isEmpty ? diagnostic.message : "\(path): \(diagnostic.message)"
        }
    }
}

/// Variables, and certificates under the names of their files; nothing else.
package struct FixtureSecrets: SecretSource {
    private let variables: [String: String]

    package init(_ variables: [String: String] = [:]) { self.variables = variables }

    package func environment(_ name: String) -> String? { variables[name] }
    package func file(_ path: String) throws(UnusableInput) -> Secret {
        throw UnusableInput("there are no files")
    }

    package func program(_ program: SecretProgram) throws(UnusableInput) -> Secret {
        throw UnusableInput("there are no programs")
    }

    package func systemdCredential(_ name: String) throws(UnusableInput) -> Secret {
        throw UnusableInput("there are no systemd credentials")
    }

    package func certificates(_ path: String) throws(UnusableInput) -> String {
        guard let text = variables[path] else { throw UnusableInput("\(path): no such file") }
        return text
    }

    package func publicText(_ path: String) throws(UnusableInput) -> String { try certificates(path) }

    package func fits(_ tls: ClientTLS) -> Bool { true }

    package func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        SampleKeys.open(pem, passphrase: passphrase)
    }
}
