/// Signed tokens that prove a client.
extension AccessDecoder {
    static func jwt(_ fields: ConfigFields) -> ClientJWTPlan? {
        fields.explain(jwtMeanings)
        defer { fields.refuseUnknownKeys() }
        for name in ["issuer", "audience", "jwks"] where !fields.has(name) { fields.missing(name) }
        let (issuer, audience) = (fields.string("issuer"), fields.string("audience"))
        let keys = fields.fields("jwks").flatMap(keys)
        let subject = fields.string("subject")
        let claims = Dictionary((fields.stringMap("claims") ?? []).map { ($0.name, $0.value) }) { first, _ in first }
        if !fields.has("subject"), claims.isEmpty {
            fields.error("proves every subject of the issuer as this client; name its subject, or claims")
            return nil
        }
        guard let issuer, let audience, let keys else { return nil }
        return ClientJWTPlan(issuer: issuer, audience: audience, keys: keys, subject: subject, claims: claims)
    }

    private static func keys(_ fields: ConfigFields) -> ClientJWTPlan.Keys? {
        fields.explain(jwksMeanings)
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
        // Of a file that is not read now, nothing can be said.
        guard !fields.context.secrets.areUnread else { return nil }
        do throws(SecretSourceError) {
            let text = try fields.context.secrets.publicText(path)
            guard let set = JSONWebKeySet(Array(text.utf8)) else {
                fields.error(
                    "file",
                    "\(path) is no JSON Web Key Set (RFC 7517) with a public key for RS256, PS256, ES256 or EdDSA"
                )
                return nil
            }
            return .set(set)
        } catch {
            fields.error("file", error.message)
            return nil
        }
    }

    static let jwtMeanings: [String: KeyMeaning] = [
        "issuer": KeyMeaning("The iss of the token, to the character.", example: "https://issuer.example.com"),
        "audience": KeyMeaning("What aud of the token is, or contains.", example: "authgateway"),
        "jwks": KeyMeaning(
            "Where the public keys of the issuer are.",
            example: "{url: https://issuer.example.com/jwks}"
        ),
        "subject": KeyMeaning("The sub of the token. With /* at its end, all below it.", example: "build-agent"),
        "claims": KeyMeaning(
            "Other claims that the token must have, as texts. A claim that is a list has to contain the text.",
            example: "{repository: example/app}"
        ),
    ]

    static let jwksMeanings: [String: KeyMeaning] = [
        "file": KeyMeaning("A file with a JSON Web Key Set. A reload reads it again.", example: "./jwks.json"),
        "url": KeyMeaning(
            "An https URL with a JSON Web Key Set. It is fetched every 10 minutes, and when a token names an unknown key.",
            example: "https://issuer.example.com/jwks"
        ),
    ]
}
