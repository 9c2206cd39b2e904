import GatewayConfiguration
package import GatewayTokens

/// The JSON Schema (draft 2020-12) of the whole configuration, made from what the decoders ask for.
///
/// It says what keys there are and how their values are spelt, so that an editor can help. What values mean together is
/// left to `authgateway check`: a schema would repeat the decoders, in a worse language.
package enum ConfigSchema {
    /// One JSON document with a line break at the end.
    package static func text(_ catalog: StrategyCatalog) -> String {
        let tree = tree(catalog)
        let root = SchemaWriter(substitutes: substitutes, additions: additions).object(tree, at: "")
        guard case .object(let members) = root else { return "" }
        let head: [(String, SchemaValue)] = [
            ("$schema", .string("https://json-schema.org/draft/2020-12/schema")),
            ("title", .string("AuthGateway configuration")),
            ("required", .array([.string("version")])),
        ]
        return SchemaValue.object(head + members.filter { $0.0 != "required" } + [("$defs", definitions(catalog))])
            .text() + "\n"
    }

    static func tree(_ catalog: StrategyCatalog) -> KeyRecorder.Node {
        SchemaProbe.explore { document, recorder in
            let file = ConfigDocument.File(name: "", path: "/gateway.yaml", lines: [])
            let whole = ConfigDocument(files: [file], root: document)
            PlanDecoder.explore(whole, catalog: catalog, secrets: ProbeSecrets(), recorder: recorder)
        }
    }

    // MARK: What is written by hand

    /// Places whose meaning is not in the kind of a value.
    private static let substitutes: [String: SchemaValue] = [
        "version": .object([("const", .number(1))]),
        "workers": .object([
            (
                "anyOf",
                .array([
                    .object([("const", .string("auto"))]),
                    .object([("type", .string("integer")), ("minimum", .number(1)), ("maximum", .number(256))]),
                    SchemaWriter.reference("variable"),
                ])
            )
        ]),
        "include": .object([
            (
                "anyOf",
                .array([
                    .object([("type", .string("string"))]),
                    .object([("type", .string("array")), ("items", .object([("type", .string("string"))]))]),
                ])
            )
        ]),
        "audit.anchor.syslog": .object([
            (
                "anyOf",
                .array([.object([("const", .bool(true))]), SchemaWriter.reference("string")])
            )
        ]),
        "routes.*.tls.pin": SchemaWriter.stringOrStrings,
        "routes.*.proxy": SchemaWriter.reference("proxy"),
        "defaults.proxy": SchemaWriter.reference("proxy"),
        "credentials.*": SchemaWriter.reference("credential"),
        "routes.*.auth": .object([("anyOf", .array([SchemaWriter.reference("auth"), completion]))]),
    ]

    /// A route says itself where it leads and how, or a preset says it.
    private static let additions: [String: [(String, SchemaValue)]] = [
        "routes.*": [
            ("if", required("preset")), ("then", .object([])),
            (
                "else",
                .object([
                    ("required", .array([.string("auth"), .string("upstream")])),
                    ("properties", .object([("auth", SchemaWriter.reference("auth"))])),
                ])
            ),
        ]
    ]

    private static func required(_ keys: String...) -> SchemaValue {
        .object([("required", .array(keys.map { .string($0) }))])
    }

    // MARK: Strategies

    private static func definitions(_ catalog: StrategyCatalog) -> SchemaValue {
        let writer = SchemaWriter(substitutes: ["proxy": SchemaWriter.reference("proxy")])
        let kinds = catalog.kinds.sorted()
        var definitions = SchemaWriter.shared
        let narrowing: [(String, SchemaValue)] = [
            ("as_user", SchemaWriter.reference("string")), ("downscope", SchemaWriter.reference("downscope")),
        ]
        definitions.append(("credential", block(kinds, adding: [("vend", SchemaWriter.reference("vend"))])))
        definitions.append(
            (
                "auth",
                .object([
                    (
                        "anyOf",
                        .array([
                            SchemaWriter.reference("string"), block(kinds, adding: narrowing), sharedCredential,
                        ])
                    )
                ])
            )
        )
        let downscope = writer.members(downscopeTree(catalog), at: "")
        definitions.append(("downscope", .object(downscope.value(isClosed: true))))
        let vend = SchemaWriter(substitutes: ["downscope": SchemaWriter.reference("downscope")])
            .members(vendTree(catalog), at: "")
        definitions.append(("vend", .object(vend.value(isClosed: true))))
        let proxy = SchemaWriter(substitutes: [:]).members(proxyTree(), at: "").properties
        definitions += proxy.filter { $0.0 == "proxy" }
        for type in catalog.strategies.sorted(by: { $0.kind < $1.kind }) {
            var node = writer.members(strategyTree(type), at: "")
            node.properties.removeAll { $0.0 == "strategy" }
            definitions.append(("strategy.\(type.kind)", .object(node.value(isClosed: false))))
        }
        return .object(definitions)
    }

    /// A mapping that begins with `strategy: kind`, or with `preset: name` and keys that the preset allows.
    private static func block(_ kinds: [String], adding more: [(String, SchemaValue)]) -> SchemaValue {
        let choices = kinds.map { kind in
            SchemaValue.object([
                (
                    "if",
                    .object([("properties", .object([("strategy", .object([("const", .string(kind))]))]))])
                ),
                ("then", SchemaWriter.reference("strategy.\(kind)")),
            ])
        }
        let preset: [(String, SchemaValue)] = [
            ("preset", SchemaWriter.reference("string")), ("with", .object([("type", .string("object"))])),
        ]
        let strategy = ("strategy", SchemaValue.object([("enum", .array(kinds.map { .string($0) }))]))
        return .object([
            ("type", .string("object")),
            ("if", required("preset")),
            ("then", .object([("properties", .object(preset + more))])),
            (
                "else",
                .object([
                    ("required", .array([.string("strategy")])),
                    ("properties", .object([strategy] + more)),
                    ("allOf", .array(choices)),
                    ("unevaluatedProperties", .bool(false)),
                ])
            ),
        ])
    }

    /// What `auth` adds to the credential of the route's preset.
    private static var completion: SchemaValue {
        let others = ["strategy", "credential", "preset"].map { required($0) }
        return .object([("type", .string("object")), ("not", .object([("anyOf", .array(others))]))])
    }

    /// `{credential: name, subject: …}` of a route.
    private static var sharedCredential: SchemaValue {
        .object([
            ("type", .string("object")),
            ("required", .array([.string("credential")])),
            (
                "properties",
                .object([
                    ("credential", SchemaWriter.reference("string")), ("as_user", SchemaWriter.reference("string")),
                    ("subject", .object([("type", .string("object"))])),
                    ("downscope", SchemaWriter.reference("downscope")),
                ])
            ),
            ("additionalProperties", .bool(false)),
        ])
    }

    static func strategyTree(_ type: any AuthStrategy.Type) -> KeyRecorder.Node {
        var (isStatic, hasSecret) = (false, true)
        // Stays unknown if the strategy accepts no made-up document.
        var sendsRequests = type.maySendRequests
        let tree = SchemaProbe.explore(fixed: ["strategy": type.kind]) { document, recorder in
            let fields = fields(document, recorder)
            let strategy = fields.flatMap { type.read(from: $0) }
            if let strategy, !strategy.isRenewable { isStatic = true }
            if let strategy, !strategy.hasSecret { hasSecret = false }
            if type.maySendRequests == nil, let strategy {
                sendsRequests = sendsRequests == true || strategy.behavior.sendsRequests
            }
        }
        let shared = SchemaProbe.explore { [isStatic, hasSecret, sendsRequests] document, recorder in
            guard let fields = fields(document, recorder) else { return }
            if !isStatic { _ = RenewalDecoder.decode(fields, for: nil, of: type) }
            if hasSecret { _ = SecretExpirationDecoder.decode(fields, for: nil) }
            if sendsRequests ?? true { decodeProxy(fields) }
        }
        for key in shared.keys {
            tree.keys.append(key)
            tree.children[key] = shared.children[key]
        }
        tree.meanings.merge(shared.meanings) { own, _ in own }
        return tree
    }

    /// `proxy`, which is the same wherever it stands.
    private static func proxyTree() -> KeyRecorder.Node {
        SchemaProbe.explore { document, recorder in
            if let fields = fields(document, recorder) { decodeProxy(fields) }
        }
    }

    private static func decodeProxy(_ fields: ConfigFields) {
        fields.explain(CredentialDecoder.proxyKeys)
        _ = ProxyDecoder.decode(fields)
    }

    static func downscopeTree(_ catalog: StrategyCatalog) -> KeyRecorder.Node {
        SchemaProbe.explore { document, recorder in
            _ = fields(document, recorder).flatMap { catalog.downscoping?.init(downscope: $0) }
        }
    }

    /// `vend` of a credential, whatever its strategy.
    static func vendTree(_ catalog: StrategyCatalog) -> KeyRecorder.Node {
        let credential = SchemaProbe.explore { document, recorder in
            guard let fields = fields(document, recorder) else { return }
            _ = CredentialVending(of: fields, among: [SchemaProbe.name], catalog: catalog)
        }
        return credential.child("vend")
    }

    private static func fields(_ document: ConfigNode, _ recorder: KeyRecorder) -> ConfigFields? {
        let file = ConfigDocument.File(name: "", path: "/gateway.yaml", lines: [])
        let whole = ConfigDocument(files: [file], root: document)
        let context = ConfigContext(document: whole, secrets: ProbeSecrets(), recorder: recorder)
        return ConfigFields(document, path: .root, context: context)
    }
}
