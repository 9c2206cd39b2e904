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
        $0("key_id", \.keyID, .text, example: "{env: API_KEY}")
            .means("The ID of the key, or the API key that belongs to it: {{key_id}} in message and apply.")
        $0("message", example: "\"{{method}}\\n{{path}}\\n{{time}}\\n{{body.sha256}}\"")
            .means(
                "The string that is signed, made from parts of the request: {{method}}, {{method.lower}}, {{host}}, {{target}}, "
                    + "{{path}}, {{query}}, {{query.sorted}}, {{parameters}}, {{header.NAME}}, {{body}}, {{body.sha256}}, "
                    + "{{body.sha256.base64}}, {{time}}, {{expires}}, {{nonce}}, {{key_id}}."
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
        let template = Self.message(in: fields)
        let placement = TokenPlacement(in: fields, of: .signature, extras: SigningValue.sendable)
        if let template, let placement { Self.check(options, template, placement, in: fields) }
        guard let key, let bytes, let template, let placement, fields.context.errorCount == errors else { return nil }
        var identity = GrantIdentity(strategy: Self.kind, subject: nil)
        identity.add("algorithm", options.algorithm.rawValue)
        identity.add("key", secret: key)
        identity.add("key_encoding", options.keyEncoding.rawValue)
        identity.add("key_id", options.keyID)
        identity.add("message", template.shown)
        identity.add("encoding", options.encoding.rawValue)
        identity.add("lifetime", ConfigUnits.text(options.lifetime))
        placement.addInputs(to: &identity)
        self.key = key
        signer = HMACSigner(
            identity: identity,
            algorithm: options.algorithm,
            key: bytes,
            keyID: options.keyID,
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

    private static func message(in fields: ConfigFields) -> Template? {
        guard fields.has("message") else {
            fields.missing("message")
            return nil
        }
        guard let text = fields.string("message", allowsLineBreaks: true) else { return nil }
        // Any header field can be signed, so the ones in the message are known names, too.
        let names = (try? Template(text))?.names ?? []
        var scope = TemplateScope(names: Set(SigningValue.named.keys).union(["header.NAME"]))
        for name in names {
            guard case .field(let field)? = SigningValue(name), !field.isEmpty else { continue }
            scope.names.insert(name)
            if field == "host" {
                fields.error("message", "contains {{\(name)}}: use {{host}}")
            } else if field != "content-encoding", FieldSyntax.reserved.contains(field) {
                fields.error(
                    "message",
                    "contains {{\(name)}}: this field belongs to the connection and cannot be signed"
                )
            }
        }
        return fields.usable("message", try scope.template(text))
    }

    /// Reports keys without effect, and values that no request could carry.
    private static func check(
        _ options: Options,
        _ template: Template,
        _ placement: TokenPlacement,
        in fields: ConfigFields
    ) {
        let names = Set(template.names).union(placement.names)
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
