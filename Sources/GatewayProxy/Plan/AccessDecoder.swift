package import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Reads `access`: who may use the gateway.
package enum AccessDecoder {
    package static let keys = Keys(AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto)) {
        $0(
            "clients",
            read: { $1.clients = clients($0.fields("clients")) },
            example: "laptop: {token: {file: ./laptop.token}}\n"
                + "build: {certificate: {uri: spiffe://example.org/build}}\n"
                + "ci: {token_sha256: 02ed3077b032c1e0a58c88b63840ca927c8a0fcab59f6c6f19fc4225c594fc4e}"
        )
        // They are compared one by one.
        .covers { _ in [] }
        .means("The clients, by the name that routes, logs and the audit log use.")
        $0("require_client", \.requireClient, .choice, example: "true")
            .means(
                "Whether every request must prove that it comes from a known client. auto: yes off "
                    + "loopback, and on TCP if any client is configured."
            )
        $0(
            "allow_origins",
            default: "[]",
            read: { $1.allowedOrigins = origins($0) },
            example: "[https://app.example.com]"
        )
        .covers { [$0.allowedOrigins] }
        .means("The origins of web pages that may call the gateway from a browser (CORS).")
    }

    package static func decode(_ fields: ConfigFields?) -> AccessPlan {
        var plan = keys.defaults
        guard let fields else { return plan }
        keys.read(fields, into: &plan)
        if plan.requireClient == .true, plan.clients.isEmpty, fields.fields("clients")?.keys.isEmpty ?? true {
            fields.error("require_client", "no client is configured, so every request would be refused")
        }
        fields.refuseUnknownKeys()
        return plan
    }

    /// Reads `allow_origins` of `access` or of a route.
    static func origins(_ fields: ConfigFields) -> [String] {
        var origins: [String] = []
        for (node, path) in fields.elements("allow_origins") ?? [] {
            let text = if case .scalar(let scalar) = node.content { scalar.text } else { "" }
            guard let origin = origin(text) else {
                let advice =
                    text == "*" || text == "null"
                    ? "names no page; name each origin, such as https://app.example.com"
                    : "expected a browser origin such as https://app.example.com"
                fields.context.error(advice, at: node.span, path: path)
                continue
            }
            origins.append(origin)
        }
        return origins
    }

    /// As browsers spell it: lower case, without the default port (RFC 6454 §6.1).
    private static func origin(_ text: String) -> String? {
        guard let separator = text.firstRange(of: "://") else { return nil }
        guard let scheme = Origin.Scheme(rawValue: text[..<separator.lowerBound].lowercased()) else { return nil }
        return Origin(scheme: scheme, authority: String(text[separator.upperBound...]))?.description
    }

    // MARK: Clients

    static let clientNames = Keys {
        $0(KeyMeaning.anyName, example: "token: {env: LAPTOP_TOKEN}\nlimits: {concurrent: 10}")
            .means("One client.")
    }

    /// The name is the key of the client itself.
    package static let clientKeys = Keys(AccessPlan.Client(name: "", tokens: [])) {
        $0("token", example: "{env: LAPTOP_TOKEN}")
            .covers { [$0.tokens] }
            .means("The token that the client presents, or a list of the new token and the one that it replaces.")
        // It is one of the tokens above.
        $0("token_sha256", example: "02ed3077b032c1e0a58c88b63840ca927c8a0fcab59f6c6f19fc4225c594fc4e")
            .covers { _ in [] }
            .means(
                "Instead of token: its SHA-256 as 64 hexadecimal digits, or a list of two."
                    + " printf %s \"$TOKEN\" | sha256sum"
            )
        $0("certificate", example: "{uri: spiffe://example.org/ci}")
            .covers { [$0.certificate?.description] }
            .means("The name in the certificate that proves the client on listeners with tls.client_ca.")
        $0(
            "jwt",
            example: "issuer: https://issuer.example.com\naudience: authgateway\n"
                + "jwks: {url: https://issuer.example.com/jwks}\nsubject: build-agent"
        )
        .covers { [$0.jwt] }
        .means(
            "A signed JSON web token proves the client: RS256, PS256, ES256 or EdDSA. Its signature, exp, nbf, iat, iss and aud are"
                + " verified."
        )
        $0("limits", example: "concurrent: 10\nper_second: 50")
            .covers { [$0.limits] }
            .means("Limits for this client only.")
    }

    static let limitKeys = Keys(ClientLimitsPlan()) {
        $0("concurrent", \.concurrent, .count(1...1_000_000), default: "no limit", example: "10")
            .means("Maximum number of concurrent requests of this client. Further requests get 429.")
        $0("per_second", \.perSecond, .count(1...1_000_000), default: "no limit", example: "50")
            .means("Maximum number of requests of this client per second. Further requests get 429.")
    }

    private static func clients(_ fields: ConfigFields?) -> [AccessPlan.Client] {
        guard let fields else { return [] }
        fields.explain(clientNames)
        var clients: [AccessPlan.Client] = []
        for (name, entry) in fields.named() {
            let path = fields.path.appending(name)
            guard let own = fields.named(entry, path: path) else { continue }
            own.explain(clientKeys)
            let limits = limits(own.fields("limits"))
            guard var client = client(name, own) else { continue }
            client.limits = limits
            refuseTwins(of: client, among: clients, own, at: entry.keySpan)
            clients.append(client)
        }
        return clients
    }

    private static func limits(_ fields: ConfigFields?) -> ClientLimitsPlan {
        var limits = ClientLimitsPlan()
        guard let fields else { return limits }
        limitKeys.read(fields, into: &limits)
        if fields.keys.isEmpty { fields.error("limits nothing; leave it out") }
        fields.refuseNothing(behind: "concurrent", hint: "to allow any number of requests at a time")
        fields.refuseNothing(behind: "per_second", hint: "to allow any number of requests in a second")
        fields.refuseUnknownKeys()
        return limits
    }

    // MARK: Proofs

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
            fields.error("has no way to authenticate; give it a token, token_sha256, certificate or jwt")
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
            guard !WellKnownTokens.holds(digest: text) else {
                fields.error("token_sha256", WellKnownTokens.digestMessage)
                return nil
            }
            return .tokenSHA256(digest)
        }
    }

    // MARK: Certificates

    static let certificateKeys = Keys {
        $0("dns", example: "ci.example.com")
            .means("A host name among the certificate's subject alternative names.")
        $0("uri", example: "spiffe://example.org/ns/ci/*")
            .means(
                "A URI among the certificate's subject alternative names, such as a SPIFFE ID. A trailing "
                    + "/* matches everything below it."
            )
    }

    private static func certificate(_ fields: ConfigFields) -> CertificateName? {
        fields.explain(certificateKeys)
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

    // MARK: Signed tokens

    /// Digests depend on the order.
    static let jwtKeys = Keys(ClientJWTPlan?.none) {
        $0("issuer", example: "https://issuer.example.com")
            .covers { [$0?.issuer] }
            .means("The value that the iss claim must equal exactly.")
        $0("audience", example: "authgateway")
            .covers { [$0?.audience] }
            .means("The value that the aud claim must equal or contain.")
        $0("subject", example: "build-agent")
            .covers { [$0?.subject] }
            .means("The value of the sub claim. A trailing /* matches everything below it.")
        $0("claims", example: "{repository: example/app}")
            .covers { jwt in
                let claims = jwt?.claims.sorted { $0.key < $1.key } ?? []
                var values: [any CanonicalValue] = [claims.count]
                for claim in claims { values += [claim.key, claim.value] as [any CanonicalValue] }
                return values
            }
            .means("Other claims that the token must have, as strings. A claim that is a list must contain the string.")
        $0("jwks", example: "{url: https://issuer.example.com/jwks}")
            .covers { [$0?.keys] }
            .means("Where the public keys of the issuer are.")
    }

    static let keySetKeys = Keys {
        $0("file", example: "./jwks.json")
            .means("A file with a JSON Web Key Set. A reload reads it again.")
        $0("url", example: "https://issuer.example.com/jwks")
            .means(
                "An https URL with a JSON Web Key Set. It is fetched every 10 minutes, and when a token names an unknown key."
            )
    }

    static func jwt(_ fields: ConfigFields) -> ClientJWTPlan? {
        fields.explain(jwtKeys)
        defer { fields.refuseUnknownKeys() }
        for name in ["issuer", "audience", "jwks"] where !fields.has(name) { fields.missing(name) }
        let (issuer, audience) = (fields.string("issuer"), fields.string("audience"))
        let keys = fields.fields("jwks").flatMap(keySet)
        let subject = fields.string("subject")
        let claims = Dictionary((fields.stringMap("claims") ?? []).map { ($0.name, $0.value) }) { first, _ in first }
        if !fields.has("subject"), claims.isEmpty {
            fields.error("proves every subject of the issuer as this client; name its subject, or claims")
            return nil
        }
        guard let issuer, let audience, let keys else { return nil }
        return ClientJWTPlan(issuer: issuer, audience: audience, keys: keys, subject: subject, claims: claims)
    }

    private static func keySet(_ fields: ConfigFields) -> ClientJWTPlan.Keys? {
        fields.explain(keySetKeys)
        let (path, url) = (fields.filePath("file"), fields.authorityURL("url"))
        let isKnown = fields.unknownKeys.isEmpty
        fields.refuseUnknownKeys()
        switch (fields.has("file"), fields.has("url")) {
        case (true, false): return path.flatMap { set($0, fields) }
        case (false, true): return url.map { .url($0) }
        case (false, false) where !isKnown: return nil
        default:
            fields.error("the keys of the issuer are in exactly one of file and url")
            return nil
        }
    }

    private static func set(_ path: String, _ fields: ConfigFields) -> ClientJWTPlan.Keys? {
        // Nothing can be said of a file that is not read now.
        guard !fields.context.secrets.areUnread else { return nil }
        guard let text = fields.usable("file", try fields.context.secrets.publicText(path)) else { return nil }
        guard let set = JSONWebKeySet(Array(text.utf8)) else {
            fields.error(
                "file",
                "\(path) is not a JSON Web Key Set (RFC 7517) with a public key for RS256, PS256, ES256 or EdDSA"
            )
            return nil
        }
        return .set(set)
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
    package static func checkProofs(_ fields: ConfigFields?, of access: AccessPlan, listeners: [ListenerPlan]) {
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

    /// Refuses tokens of a user of the admin listener that could be guessed.
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
        // A token that could not be read is missing from the list, so the two cannot be paired.
        guard spans.count == tokens.count else { return }
        for case (.token(let token), let span) in zip(tokens, spans) where !fields.context.isUnread(at: span) {
            guard let finding = ClientTokenRule.finding(token, isReachable: isReachable) else { continue }
            fields.context.report(ConfigDiagnostic(finding.severity, finding.message, at: span, path: path))
        }
    }
}
