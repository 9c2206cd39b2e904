import GatewayCore

/// `claims` and `lifetime`: what an assertion says, apart from when and which.
struct AssertionClaims: Hashable, Sendable {
    private static let own: Set<String> = ["exp", "iat", "nbf", "jti"]

    var fixed: [String: JSONValue]
    let lifetime: Duration

    /// - Parameter audience: `aud` unless the claims say otherwise.
    init?(in fields: ConfigFields, audience: String?) {
        let errors = fields.context.errorCount
        lifetime = fields.duration("lifetime", in: .seconds(1) ... .seconds(3600)) ?? .seconds(60)
        var claims: [String: JSONValue] = audience.map { ["aud": .string($0)] } ?? [:]
        if !fields.has("claims") {
            fields.missing("claims")
        } else if let own = fields.fields("claims") {
            if own.has("iss") { claims["iss"] = Self.value("iss", in: own) } else { own.missing("iss") }
            for name in own.chosenNames() {
                if Self.own.contains(name) {
                    own.error(name, "is written by the strategy")
                } else if let value = Self.value(name, in: own) {
                    claims[name] = value
                }
            }
        }
        guard fields.context.errorCount == errors else { return nil }
        fixed = claims
    }

    private static func value(_ name: String, in fields: ConfigFields) -> JSONValue? {
        switch fields.scalarOrStrings(name) {
        case .scalar(let scalar)?:
            guard !scalar.isQuoted else { return .string(scalar.text) }
            switch scalar.text {
            case "true": return .bool(true)
            case "false": return .bool(false)
            default: return Int32(scalar.text).map { .number(Double($0)) } ?? .string(scalar.text)
            }
        case .strings(let texts)?:
            return .array(texts.map { .string($0) })
        case nil:
            return nil
        }
    }

    func all(in attempt: GrantAttempt) -> [String: JSONValue] {
        var claims = fixed
        claims["iat"] = .time(attempt.now.wall)
        claims["exp"] = .time(attempt.now.wall + lifetime)
        claims["jti"] = .string(attempt.assertionID)
        return claims
    }

    /// Whom the token speaks for.
    var subject: String? { fixed["sub"]?.string }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("claims", (try? JSONValue.object(fixed).bytes()).map { String(decoding: $0, as: UTF8.self) })
        identity.add("lifetime", "\(lifetime)")
    }
}
