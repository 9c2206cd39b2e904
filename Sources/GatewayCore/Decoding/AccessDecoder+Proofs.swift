/// What proves who a client is.
extension AccessDecoder {
    /// - Parameter takesJWT: Users of the admin listener have no signed tokens.
    /// - Returns: nil where nothing that can be read proves the client.
    static func client(_ name: String, _ fields: ConfigFields, takesJWT: Bool = true) -> AccessPlan.Client? {
        fields.hidesUnknownValues = true
        defer { fields.refuseUnknownKeys() }
        let certificate = fields.fields("certificate").flatMap(certificate)
        let jwt = takesJWT ? fields.fields("jwt").flatMap(jwt) : nil
        let tokens = tokens(fields, orAnother: fields.has("certificate") || (takesJWT && fields.has("jwt")))
        guard tokens.isEmpty, certificate == nil, jwt == nil else {
            return AccessPlan.Client(name: name, tokens: tokens, certificate: certificate, jwt: jwt)
        }
        // A client whose proof was not read is a client: routes may name it.
        guard fields.context.isIncomplete else { return nil }
        return AccessPlan.Client(name: name, proof: .token(Secret("unread token of \(name)")))
    }

    /// - Parameter another: Something else is to prove the client.
    private static func tokens(_ fields: ConfigFields, orAnother another: Bool) -> [AccessPlan.Client.Token] {
        switch (fields.has("token"), fields.has("token_sha256")) {
        case (true, false):
            let secrets = fields.secrets("token", upTo: AccessPlan.Client.maximumTokens)
            return warnAboutTwins(secrets.map { .token($0) }, of: "token", fields)
        case (false, true): return warnAboutTwins(digests(fields), of: "token_sha256", fields)
        case (true, true):
            fields.error("a client has token or token_sha256, not both")
        case (false, false):
            guard fields.unknownKeys.isEmpty, !another else { break }
            fields.error("nothing proves this client; give it a token, token_sha256, certificate or jwt")
        }
        return []
    }

    private static func warnAboutTwins(
        _ tokens: [AccessPlan.Client.Token],
        of key: String,
        _ fields: ConfigFields
    ) -> [AccessPlan.Client.Token] {
        if tokens.count > Set(tokens).count {
            fields.warning(key, "both tokens are the same; name the new token, then the one that it replaces")
        }
        return tokens
    }

    private static func digests(_ fields: ConfigFields) -> [AccessPlan.Client.Token] {
        let texts: [String] =
            switch fields.scalarOrStrings("token_sha256") {
            case .scalar(let scalar)?: [scalar.text]
            case .strings(let texts)?: texts
            case nil: []
            }
        let maximum = AccessPlan.Client.maximumTokens
        guard texts.count <= maximum else {
            fields.error("token_sha256", "a client has at most \(maximum) tokens, found \(texts.count)")
            return []
        }
        return texts.compactMap { text in
            guard let digest = Hexadecimal.bytes(of: text), digest.count == 32 else {
                fields.error("token_sha256", "expected 64 hexadecimal digits, the SHA-256 of the token")
                return nil
            }
            return .tokenSHA256(digest)
        }
    }

    // MARK: Certificates

    private static func certificate(_ fields: ConfigFields) -> CertificateName? {
        fields.explain(certificateMeanings)
        let (dns, uri) = (fields.string("dns"), fields.string("uri"))
        let isKnown = fields.unknownKeys.isEmpty
        fields.refuseUnknownKeys()
        switch (dns, uri) {
        case (let name?, nil): return hostName(name, fields)
        case (nil, let uri?): return self.uri(uri, fields)
        case (nil, nil) where fields.has("dns") || fields.has("uri") || !isKnown: return nil
        default:
            fields.error("a certificate is known by exactly one of dns and uri")
            return nil
        }
    }

    private static func hostName(_ text: String, _ fields: ConfigFields) -> CertificateName? {
        guard !text.contains("*"), let name = PeerIdentity.Name(dns: text.utf8) else {
            fields.error("dns", "expected one host name of the certificate, such as ci.example.com, without a star")
            return nil
        }
        return .exactly(name)
    }

    /// Exactly that URI. One that ends with `/*` stands for all below it, as a trust domain or a namespace of SPIFFE ids.
    private static func uri(_ text: String, _ fields: ConfigFields) -> CertificateName? {
        let prefix = text.hasSuffix("/*") ? String(text.dropLast()) : nil
        let plain = prefix ?? text
        guard !plain.contains("*"), let name = PeerIdentity.Name(uri: plain.utf8), isAbsolute(plain) else {
            fields.error(
                "uri",
                "expected one URI of the certificate, such as spiffe://example.org/ci, or all below one:"
                    + " spiffe://example.org/ci/*"
            )
            return nil
        }
        return prefix.map { .uriBelow($0) } ?? .exactly(name)
    }

    /// Whether it has a scheme, an authority and a path, so that a prefix names whole parts of it.
    private static func isAbsolute(_ uri: String) -> Bool {
        guard let separator = uri.firstRange(of: "://"), !uri[..<separator.lowerBound].isEmpty else { return false }
        let rest = uri[separator.upperBound...]
        return !rest.isEmpty && !rest.hasPrefix("/")
    }

    // MARK: Several clients

    static func refuseTwins(
        of client: AccessPlan.Client,
        among others: [AccessPlan.Client],
        _ fields: ConfigFields,
        at span: SourceSpan
    ) {
        if let twin = others.first(where: { !Set($0.tokens).isDisjoint(with: client.tokens) }) {
            fields.error("has the same token as the client \"\(twin.name)\"", at: span)
        }
        if let own = client.jwt, let twin = others.first(where: { $0.jwt == own }) {
            fields.error("has the same jwt as the client \"\(twin.name)\"", at: span)
        }
        guard let own = client.certificate else { return }
        if let twin = others.first(where: { $0.certificate == own }) {
            fields.error("has the same certificate as the client \"\(twin.name)\"", at: span)
        }
    }

    /// Once it is known who can reach the gateway.
    static func checkProofs(_ fields: ConfigFields?, of access: AccessPlan, listeners: [ListenerPlan]) {
        guard case .mapping(let entries)? = fields?.node("clients")?.content, let fields else { return }
        let isReachable = listeners.contains { $0.address.isReachable }
        let asksForCertificates = listeners.contains { $0.tls?.clientCAPath != nil }
        for client in access.clients {
            guard case .mapping(let keys)? = entries.first(where: { $0.key == client.name })?.value.content else {
                continue
            }
            let path = fields.path.appending("clients").appending(client.name)
            if let entry = keys.first(where: { $0.key == "token" }) {
                checkLength(of: client.tokens, entry.value, at: path.appending("token"), fields, isReachable)
            }
            if client.certificate != nil, !asksForCertificates,
                let span = keys.first(where: { $0.key == "certificate" })?.keySpan
            {
                let advice = "add tls.client_ca to the listener that the client uses"
                let message = "no listener asks clients for certificates, so this has no effect; \(advice)"
                fields.context.warning(message, at: span, path: path.appending("certificate"))
            }
        }
    }

    /// Of a user of the admin listener: one that could be guessed is refused.
    static func refuseShortTokens(of user: AccessPlan.Client, _ fields: ConfigFields) {
        guard let value = fields.node("token") else { return }
        checkLength(of: user.tokens, value, at: fields.path.appending("token"), fields, true)
    }

    private static func checkLength(
        of tokens: [AccessPlan.Client.Token],
        _ value: ConfigNode,
        at path: ConfigPath,
        _ fields: ConfigFields,
        _ isReachable: Bool
    ) {
        var spans = [value.span]
        if case .sequence(let nodes) = value.content { spans = nodes.map(\.span) }
        // One that was not read has no place in the list.
        guard spans.count == tokens.count else { return }
        for case (.token(let token), let span) in zip(tokens, spans) where !fields.context.isUnread(at: span) {
            guard let finding = ClientTokenRule.finding(bytes: token.byteCount, isReachable: isReachable) else {
                continue
            }
            fields.context.report(ConfigDiagnostic(finding.severity, finding.message, at: span, path: path))
        }
    }
}
