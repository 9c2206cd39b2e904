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
            for name in own.keys {
                if Self.own.contains(name) {
                    own.error(name, "is written by the strategy")
                } else if let value = Self.value(own.node(name), name, own) {
                    claims[name] = value
                }
            }
            if !own.has("iss") { own.missing("iss") }
        }
        guard fields.context.errorCount == errors else { return nil }
        fixed = claims
    }

    private static func value(_ node: ConfigNode?, _ name: String, _ fields: ConfigFields) -> JSONValue? {
        guard let node else { return nil }
        switch node.content {
        case .scalar(let scalar) where !scalar.isNull:
            guard !scalar.isQuoted else { return .string(scalar.text) }
            switch scalar.text {
            case "true": return .bool(true)
            case "false": return .bool(false)
            default: return Int32(scalar.text).map { .number(Double($0)) } ?? .string(scalar.text)
            }
        case .sequence:
            return fields.strings(name).map { .array($0.map { .string($0) }) }
        default:
            fields.error(name, "expected a text, a number, true, false or a list of texts")
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
