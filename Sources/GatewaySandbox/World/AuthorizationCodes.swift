import Crypto
import GatewayCore

/// What an authorize page gave out, to be exchanged once.
struct AuthorizationCode: Sendable {
    let grant: WorldState.Grant
    let redirectURI: String?
    /// S256 (RFC 7636); nil when the client sent none.
    let challenge: String?
    /// In milliseconds since 1970.
    let expiresAt: Int64
    var isSpent = false
}

enum CodeRefusal: String, Error, Sendable {
    case unknown = "The code is unknown or has expired"
    case spent = "The code was used before; what came from it has ended"
    case otherClient = "The code was given to another client or redirect_uri"
    case wrongVerifier = "The code_verifier does not fit the code_challenge"
}

/// The codes of all authorities; a thousand of them at most, the oldest are forgotten first.
struct AuthorizationCodes: Sendable {
    private static let capacity = 1000
    private var codes: [String: AuthorizationCode] = [:]
    private var order: [String] = []

    mutating func add(_ code: AuthorizationCode, as value: String) {
        codes[value] = code
        order.append(value)
        if order.count > Self.capacity { codes[order.removeFirst()] = nil }
    }

    /// - Throws: ``CodeRefusal``; with `spent` comes the family that has to end (RFC 6749 §4.1.2).
    mutating func redeem(
        _ value: String,
        from form: Form,
        client: String,
        at now: Int64
    ) -> Result<WorldState.Grant, CodeRefusal> {
        guard var code = codes[value], now < code.expiresAt else { return .failure(.unknown) }
        guard code.grant.client == client, form["redirect_uri"] == nil || form["redirect_uri"] == code.redirectURI
        else {
            return .failure(.otherClient)
        }
        guard !code.isSpent else { return .failure(.spent) }
        if let challenge = code.challenge {
            let verifier = form["code_verifier"] ?? ""
            guard Base64.encodeURL(Array(SHA256.hash(data: Array(verifier.utf8)))) == challenge else {
                return .failure(.wrongVerifier)
            }
        }
        code.isSpent = true
        codes[value] = code
        return .success(code.grant)
    }

    func family(of value: String) -> Int? { codes[value]?.grant.family }
}
