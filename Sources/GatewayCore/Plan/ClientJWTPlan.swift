/// A JSON web token that proves a client (`access.clients.*.jwt`).
package struct ClientJWTPlan: Hashable, Sendable {
    package enum Keys: Hashable, Sendable {
        /// Of a file, which was read with the configuration.
        case set(JSONWebKeySet)
        /// Fetched, and fetched again while the gateway runs.
        case url(AuthorityURL)
    }

    /// How far the clocks of an issuer and the gateway may differ.
    package static let leeway = Duration.seconds(60)

    package var issuer: String
    package var audience: String
    package var keys: Keys
    /// Exactly this one; with `/*` at its end all below it (``CertificateName/isBelow(_:_:)``). nil: any.
    package var subject: String?
    /// By the name of the claim. A claim that is a list has to contain the text.
    package var claims: [String: String]

    package init(issuer: String, audience: String, keys: Keys, subject: String?, claims: [String: String] = [:]) {
        self.issuer = issuer
        self.audience = audience
        self.keys = keys
        self.subject = subject
        self.claims = claims
    }

    /// nil where the keys are in a file.
    package var url: AuthorityURL? { if case .url(let url) = keys { url } else { nil } }

    /// Whether a token with these claims is meant for the client, whenever it is valid.
    package func isMeant(by claims: JSONValue) -> Bool {
        claims["iss"]?.string.map { Self.isSame($0, issuer) } ?? false && Self.has(audience, claims["aud"])
            && (subject.map { Self.matches(claims["sub"]?.string, $0) } ?? true)
            && self.claims.allSatisfy { Self.has($1, claims[$0]) }
    }

    /// When a token with these claims ends, with the leeway; nil when it is not valid now (RFC 7519 section 4.1). One that has no end is
    /// not valid.
    package static func end(of claims: JSONValue, at now: UnixTime) -> UnixTime? {
        guard let expires = UnixTime(numericDate: claims["exp"]) else { return nil }
        let end = expires + leeway
        guard now < end else { return nil }
        for name in ["nbf", "iat"] {
            guard let value = claims[name] else { continue }
            guard let start = UnixTime(numericDate: value), start <= now + leeway else { return nil }
        }
        return end
    }

    /// Tells two plans apart.
    package func add(to bytes: inout CanonicalBytes) {
        bytes.add(issuer)
        bytes.add(audience)
        bytes.add(subject)
        bytes.add(claims.sorted { $0.key < $1.key }) { bytes, claim in
            bytes.add(claim.key)
            bytes.add(claim.value)
        }
        switch keys {
        case .set(let set):
            bytes.add("set")
            bytes.add(set.keys) { bytes, key in key.add(to: &bytes) }
        case .url(let url):
            bytes.add("url")
            bytes.add(url.text)
        }
    }

    private static func has(_ text: String, _ claim: JSONValue?) -> Bool {
        switch claim {
        case .string(let value)?: isSame(value, text)
        case .array(let values)?: values.contains { $0.string.map { isSame($0, text) } ?? false }
        default: false
        }
    }

    private static func matches(_ subject: String?, _ wanted: String) -> Bool {
        guard let subject else { return false }
        guard wanted.hasSuffix("/*") else { return isSame(subject, wanted) }
        return CertificateName.isBelow(String(wanted.dropLast()), subject)
    }

    /// To the byte: strings of Swift are equal if they look the same.
    private static func isSame(_ one: String, _ other: String) -> Bool { one.utf8.elementsEqual(other.utf8) }
}
