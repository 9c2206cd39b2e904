import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Signs each request with a shared key: an HMAC (RFC 2104) over a message made from parts of the request.
struct HMACStrategy: AuthStrategy {
    static let kind = "hmac"
    static let otherNames = ["hmac_auth", "hmac_sha256", "request_signing", "signature"]

    private enum KeyEncoding: String, CaseIterable {
        case text
        case hex
        case base64
    }

    private struct Options {
        var algorithm = HashAlgorithm.sha256
        var keyEncoding = KeyEncoding.text
        var keyPrefix: String?
        var keyID: String?
        var encoding = HMACSigner.Encoding.hex
        var lifetime = Duration.seconds(60)
    }

    private static let keys = Keys(Options()) {
        $0("algorithm", \.algorithm, .choice, example: "sha512")
            .means("The hash function of the HMAC (RFC 2104).")
        $0("key", example: "{env: API_SECRET}")
            .means("The shared key that requests are signed with.")
        $0("key_encoding", \.keyEncoding, .choice, example: "base64")
            .means("How the bytes of the key are written. text is the string itself, in UTF-8.")
        $0("key_prefix", \.keyPrefix, .text, example: "TC3")
            .means("A prefix that the API puts before the key.")
        $0("key_chain", example: "[\"{{time.date}}\", cvm, tc3_request]")
            .means(
                "For a derived key: each string is signed with the signature of the one before it, and the first one with key. The "
                    + "last signature is the key for message. A string can contain {{time}} in any of its forms."
            )
        $0("key_id", \.keyID, .text, example: "{env: API_KEY}")
            .means("The ID of the key, or the API key that belongs to it: {{key_id}} in message and apply.")
        $0("message", example: "\"{{method}}\\n{{path}}\\n{{time}}\\n{{body.sha256}}\"")
            .means(
                "The string that is signed, made from parts of the request: {{method}}, {{method.lower}}, {{host}}, {{target}}, "
                    + "{{path}}, {{query}}, {{query.sorted}}, {{query.encoded}}, {{parameters}}, {{parameter.NAME}}, "
                    + "{{header.NAME}}, {{header.NAME.lower}}, {{body}}, {{body.sha256}}, {{body.sha256.base64}}, "
                    + "{{inner_message.sha256}}, {{time}}, {{time.date}}, {{expires}}, {{nonce}}, {{key_id}}."
            )
        $0("inner_message", example: "\"{{method}}\\n{{path}}\\n{{query.encoded}}\\n{{body.sha256}}\"")
            .means(
                "A string whose digest is part of message: {{inner_message.sha256}}, {{inner_message.sha256.base64}}, or the bytes "
                    + "themselves as {{inner_message.sha256.bytes}}. It is made like message. APIs call it the canonical request."
            )
        $0("encoding", \.encoding, .choice, example: "base64")
            .means("How the signature is written.")
        $0("lifetime", \.lifetime, .duration(.seconds(1) ... .seconds(86_400)), example: "30s")
            .means("The time from {{time}} to {{expires}}.")
    }

    private let key: Secret
    private let signer: HMACSigner

    init?(from fields: ConfigFields) {
        fields.explain(Self.applyMeaning)
        let errors = fields.context.errorCount
        var options = Self.keys.defaults
        Self.keys.read(fields, into: &options)
        let key = fields.requiredSecret("key")
        let bytes = key.flatMap { Self.bytes(of: $0, options.keyEncoding, in: fields) }
        let chain = Self.keyChain(in: fields)
        let inner = fields.has("inner_message") ? Self.message("inner_message", in: fields) : nil
        let template = Self.message("message", in: fields)
        let placement = TokenPlacement(in: fields, of: .signature, extras: SigningValue.sendable)
        if let template, let placement {
            Self.check(options, template, inner, placement, in: fields)
        }
        guard let key, let bytes, let template, let placement, fields.context.errorCount == errors else { return nil }
        var identity = GrantIdentity(strategy: Self.kind, subject: nil)
        identity.add("algorithm", options.algorithm.rawValue)
        identity.add("key", secret: key)
        identity.add("key_encoding", options.keyEncoding.rawValue)
        identity.add("key_prefix", options.keyPrefix)
        for (number, step) in chain.enumerated() { identity.add("key_chain.\(number)", step.shown) }
        identity.add("key_id", options.keyID)
        identity.add("inner_message", inner?.shown)
        identity.add("message", template.shown)
        identity.add("encoding", options.encoding.rawValue)
        identity.add("lifetime", ConfigUnits.text(options.lifetime))
        placement.addInputs(to: &identity)
        self.key = key
        signer = HMACSigner(
            identity: identity,
            algorithm: options.algorithm,
            key: HMACSigner.Key(
                Array((options.keyPrefix ?? "").utf8) + bytes,
                chain: chain.map(HMACSigner.Message.init)
            ),
            keyID: options.keyID,
            innerMessage: inner.map(HMACSigner.Message.init),
            message: HMACSigner.Message(template),
            encoding: options.encoding,
            lifetime: options.lifetime,
            placement: placement
        )
    }

    var behavior: AuthBehavior { .signed(.everyRequest(signer)) }
    var injectedSecret: (key: String, secret: Secret)? { ("key", key) }

    /// The bytes of the key; nil after a mistake. No message repeats it.
    private static func bytes(of key: Secret, _ encoding: KeyEncoding, in fields: ConfigFields) -> [UInt8]? {
        let bytes: [UInt8]? = key.withValue { text in
            switch encoding {
            case .text: Array(text.utf8)
            case .hex: Hexadecimal.bytes(of: text)
            // The prefix of webhook secrets would be taken for a part of the second alphabet.
            case .base64 where text.hasPrefix("whsec_"): nil
            // APIs hand out both alphabets, the second one without padding.
            case .base64: Base64.decode(text) ?? Base64.decodeURL(text)
            }
        }
        guard let bytes, !bytes.isEmpty else {
            fields.error(
                "key",
                "is not \(encoding == .hex ? "hexadecimal" : "base64") (key_encoding); leave out a prefix such as whsec_"
            )
            return nil
        }
        return bytes
    }

    /// Nothing after a mistake.
    private static func keyChain(in fields: ConfigFields) -> [Template] {
        guard fields.has("key_chain"), let texts = fields.strings("key_chain") else { return [] }
        if texts.isEmpty { fields.error("key_chain", "is empty: name the strings to sign, or leave it out") }
        let scope = TemplateScope(names: SigningValue.derivable)
        var steps: [Template] = []
        for text in texts {
            if let step = fields.usable("key_chain", try scope.template(text)) { steps.append(step) }
        }
        return steps
    }

    private static func message(_ key: String, in fields: ConfigFields) -> Template? {
        guard fields.has(key) else {
            fields.missing(key)
            return nil
        }
        guard let text = fields.string(key, allowsLineBreaks: true) else { return nil }
        let isInner = key == "inner_message"
        var scope = TemplateScope(names: ["header.NAME", "parameter.NAME"])
        for (name, value) in SigningValue.named where !isInner || !value.isInnerMessage { scope.names.insert(name) }
        // Any header field and any parameter can be signed, so the ones in the message are known names, too.
        for name in (try? Template(text))?.names ?? [] {
            guard let value = SigningValue(name) else { continue }
            if case .parameter = value { scope.names.insert(name) }
            guard let field = value.field, !field.isEmpty else { continue }
            scope.names.insert(name)
            if field == "host" {
                fields.error(key, "contains {{\(name)}}: use {{host}}")
            } else if field != "content-encoding", FieldSyntax.reserved.contains(field) {
                fields.error(
                    key,
                    "contains {{\(name)}}: this field belongs to the connection and cannot be signed"
                )
            }
        }
        return fields.usable(key, try scope.template(text))
    }

    /// Reports keys without effect, and values that no request could carry.
    private static func check(
        _ options: Options,
        _ template: Template,
        _ inner: Template?,
        _ placement: TokenPlacement,
        in fields: ConfigFields
    ) {
        let names = Set(template.names + (inner?.names ?? [])).union(placement.names)
        let hashesInner = template.names.contains { SigningValue($0)?.isInnerMessage == true }
        if hashesInner, !fields.has("inner_message") {
            fields.missing("inner_message")
        } else if fields.has("inner_message"), !hashesInner {
            fields.error("inner_message", "is not used: put its digest into message, such as {{inner_message.sha256}}")
        }
        if options.keyPrefix != nil, options.keyEncoding != .text {
            fields.error("key_prefix", "cannot be combined with key_encoding: \(options.keyEncoding.rawValue)")
        }
        if !placement.fitsFields {
            fields.error("apply", "each value must be visible ASCII without a space at either end")
        }
        if placement.names.contains("key_id"), let keyID = options.keyID, !FieldSyntax.isValue(keyID) {
            fields.error("key_id", "must be visible ASCII without a space at either end")
        }
        if fields.has("lifetime"), !names.contains(where: { $0.hasPrefix("expires") }) {
            fields.error("lifetime", "is not used: put {{expires}} into message or apply")
        }
        if names.contains("key_id"), !fields.has("key_id") {
            fields.missing("key_id")
        } else if options.keyID != nil, !names.contains("key_id") {
            fields.error("key_id", "is not used: put {{key_id}} into message or apply")
        }
    }
}

extension HMACStrategy {
    private static let applyMeaning = [
        "apply": KeyMeaning(
            "Where the signature goes, and what is sent with it: header fields, query parameters, or the password of a user.",
            example: "header: X-Signature\nvalue: \"{{signature}}\""
        )
    ]
}
