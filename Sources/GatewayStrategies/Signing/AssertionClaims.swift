import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// `claims` and `lifetime`: what an assertion says, apart from when and which.
struct AssertionClaims: Hashable, Sendable {
    /// What claims are for.
    struct Use: Hashable {
        let maximumLifetime: Duration
        let defaultLifetime: Duration
        let requiresIssuer: Bool
        /// Whether each one has a `jti`.
        var hasID = true

        /// They are signed for one request (RFC 7523 §3).
        static let assertion = Use(
            maximumLifetime: .seconds(3600),
            defaultLifetime: .seconds(60),
            requiresIssuer: true
        )
    }

    private static let own: Set<String> = ["exp", "iat", "nbf", "jti"]

    var fixed: [String: JSONValue]
    let lifetime: Duration
    private let hasID: Bool

    /// - Parameter audience: `aud` unless the claims say otherwise.
    init?(in fields: ConfigFields, audience: String?, for use: Use = .assertion) {
        let errors = fields.context.errorCount
        lifetime = fields.duration("lifetime", in: .seconds(1)...use.maximumLifetime) ?? use.defaultLifetime
        hasID = use.hasID
        var claims: [String: JSONValue] = audience.map { ["aud": .string($0)] } ?? [:]
        if !fields.has("claims") {
            fields.missing("claims")
        } else if let own = fields.fields("claims") {
            own.explain([
                "iss": KeyMeaning("The issuer. Other claims can be added.", example: "my-client")
            ])
            if own.has("iss") {
                claims["iss"] = Self.value("iss", in: own)
            } else if use.requiresIssuer {
                own.missing("iss")
            }
            for name in own.chosenNames() {
                if Self.own.contains(name) {
                    own.error(name, "is set by the strategy")
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
            default: return Int32(scalar.text).map { .number(.init(Double($0))) } ?? .string(scalar.text)
            }
        case .strings(let texts)?:
            return .array(texts.map { .string($0) })
        case nil:
            return nil
        }
    }

    /// Fills in what never changes.
    ///
    /// - Returns: The claims whose names get their values later; nil after a mistake.
    mutating func settle(_ scope: TemplateScope, in fields: ConfigFields) -> [String: Template]? {
        var templates: [String: Template] = [:]
        for (name, value) in fixed {
            guard let text = value.string, text.contains("{{") else { continue }
            do throws(UnusableInput) {
                let template = try scope.template(text)
                if template.names.isEmpty {
                    fixed[name] = .string(template.shown)
                } else {
                    templates[name] = template
                }
            } catch {
                fields.error("claims", "\(name): \(error.message)")
                return nil
            }
        }
        return templates
    }

    func all(in attempt: GrantAttempt) -> [String: JSONValue] {
        var claims = fixed
        claims["iat"] = .time(attempt.now.wall)
        claims["exp"] = .time(end(from: attempt.now.wall))
        if hasID { claims["jti"] = .string(attempt.assertionID) }
        return claims
    }

    func end(from now: UnixTime) -> UnixTime { now + lifetime }

    /// Whom the token speaks for.
    var subject: String? { fixed["sub"]?.string }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("claims", (try? JSONValue.object(fixed).bytes()).map { String(decoding: $0, as: UTF8.self) })
        // Stored tokens are found by this text, so it stays as it is: "3600.0 seconds".
        identity.add("lifetime", "\(lifetime.thousandthsOfSeconds) seconds")
    }
}

extension JSONValue {
    /// `NumericDate` (RFC 7519 §2), in whole seconds.
    static func time(_ time: UnixTime) -> JSONValue { .number(.init(Double(time.milliseconds / 1000))) }
}

extension GrantAttempt {
    /// `jti`: another one for every request of every attempt.
    var assertionID: String { "\(nonce)-\(answers)" }
}
