package import GatewayHTTP

/// The answers that a client gets for its code and its refresh tokens: with phantoms in place of tokens.
package enum CapturedAnswer {
    /// The answer to the code, as the authorization server gave it, without the real tokens.
    ///
    /// Other members pass, and so does `id_token`. What may be another token does not: a member of any depth whose name says token or
    /// secret, and any text that holds one of the real tokens.
    ///
    /// - Parameters:
    ///   - document: ``TokenReply/document``
    ///   - token: What was read from it.
    package static func exchange(
        _ document: JSONValue,
        _ token: TokenSet,
        as phantom: Phantom
    ) throws(CaptureRefusal) -> OAuthAnswer {
        guard case .object(var members) = document else { throw .answer("is not a JSON object") }
        if let type = members["token_type"], type.string?.lowercased() != "bearer" {
            throw .answer("has a token that is not a bearer token")
        }
        let idToken = members["id_token"]?.string
        members["access_token"] = nil
        members["refresh_token"] = nil
        let secrets = [token.access, token.refreshToken].compactMap(\.self).filter { !$0.isEmpty }
        var kept = withoutTokens(.object(members), secrets)
        kept["token_type"] = .string("Bearer")
        kept["id_token"] = idToken.map { .string($0) }
        kept["access_token"] = .string(phantom.access.withValue(\.self))
        if token.refreshToken != nil { kept["refresh_token"] = .string(phantom.refresh.withValue(\.self)) }
        return OAuthAnswer(try text(of: kept))
    }

    /// - Parameter left: How long the real token lives; nil if that is not known.
    package static func refresh(_ phantom: Phantom, left: Duration?) throws(CaptureRefusal) -> OAuthAnswer {
        var members: [String: JSONValue] = [
            "access_token": .string(phantom.access.withValue(\.self)),
            "refresh_token": .string(phantom.refresh.withValue(\.self)),
            "token_type": .string("Bearer"),
        ]
        if let left {
            members["expires_in"] = .number(JSONValue.Number(integerLiteral: max(1, left.components.seconds)))
        }
        return OAuthAnswer(try text(of: members))
    }

    private static func text(of members: [String: JSONValue]) throws(CaptureRefusal) -> Secret {
        guard let bytes = try? JSONValue.object(members).bytes() else {
            throw .answer("has a member twice, or a number that cannot be written")
        }
        return Secret(String(decoding: bytes, as: UTF8.self) + "\n")
    }

    private static func withoutTokens(_ value: JSONValue, _ secrets: [Secret]) -> [String: JSONValue] {
        guard case .object(let members) = value else { return [:] }
        return members.reduce(into: [:]) { kept, member in
            guard !namesToken(member.key, member.value) else { return }
            kept[member.key] = clean(member.value, secrets)
        }
    }

    /// nil for what does not pass.
    private static func clean(_ value: JSONValue, _ secrets: [Secret]) -> JSONValue? {
        switch value {
        case .null, .bool, .number: value
        case .string(let text): secrets.contains { $0.withValue { text.contains($0) } } ? nil : value
        case .array(let elements): .array(elements.compactMap { clean($0, secrets) })
        case .object: .object(withoutTokens(value, secrets))
        case .conflict: nil
        }
    }

    /// A number is none, such as `refresh_token_expires_in`.
    private static func namesToken(_ name: String, _ value: JSONValue) -> Bool {
        switch value {
        case .null, .bool, .number: return false
        case .string, .array, .object, .conflict: break
        }
        let name = name.lowercased()
        return name.contains("token") && name != "token_type" || name.contains("secret")
    }

    /// Whose login it is: `iss` and `sub` of the ID token (OpenID Connect Core 1.0 section 2), as bytes to be digested. nil where that is
    /// not told.
    ///
    /// The signature is not verified: the token came from the token endpoint itself over TLS (section 3.1.3.7, number 6).
    package static func account(in document: JSONValue) -> [UInt8]? {
        guard let token = document["id_token"]?.string else { return nil }
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let payload = Base64.decodeURL(parts[1]),
            let claims = JSONValue(payload, uniqueNames: true), let subject = claims["sub"]?.string, !subject.isEmpty
        else { return nil }
        return Array("\(claims["iss"]?.string ?? "")\u{0}\(subject)".utf8)
    }
}
