import Crypto
import GatewayHTTP
import HTTPTypes
import Hummingbird

/// The page where a person would sign in and consent; here two buttons (RFC 6749 §4.1.1, RFC 7636 §4.3).
///
/// `decision=approve` and `decision=deny` in the query press them.
struct AuthorizePage: Sendable {
    let world: World
    let origin: OriginName
    /// Whom a code speaks for.
    let subject: String
    let clients: [String]
    /// Seconds that a code lives.
    let codeLifetime: Int

    func answer(_ request: Request) -> Response {
        let query = Form(Array((request.uri.query ?? "").utf8))
        guard let query, let client = query["client_id"], clients.contains(client) else {
            return page("Unknown client", status: .badRequest)
        }
        // The browser is sent only to addresses that the authority knows to be the client's.
        guard let redirect = query["redirect_uri"], Self.isAllowed(redirect) else {
            return page("redirect_uri_mismatch", status: .badRequest)
        }
        guard query["response_type"] == "code" else {
            return send("error=unsupported_response_type", to: redirect, query)
        }
        guard query["code_challenge"] == nil || query["code_challenge_method"] == "S256" else {
            return send("error=invalid_request", to: redirect, query)
        }
        switch query["decision"] {
        case "approve": return send("code=\(issue(client, redirect, query))", to: redirect, query)
        case "deny": return send("error=access_denied", to: redirect, query)
        default: return page(form(query, client: client), status: .ok)
        }
    }

    /// Loopback with any port (RFC 8252 §7.3), https and the schemes of apps.
    private static func isAllowed(_ redirect: String) -> Bool {
        guard redirect.hasPrefix("http://") else { return redirect.contains("://") }
        return ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"].contains { redirect.hasPrefix($0) }
    }

    private func issue(_ client: String, _ redirect: String, _ query: Form) -> String {
        world.withState { state, now in
            let grant = WorldState.Grant(
                authority: origin,
                client: client,
                subject: subject,
                scopes: query["scope"]?.split(separator: " ").map(String.init) ?? [],
                family: state.registry.newFamily(),
                lifetime: state.switches[origin]?.tokenLifetime
            )
            let code = AuthorizationCode(
                grant: grant,
                redirectURI: redirect,
                challenge: query["code_challenge"],
                expiresAt: now + Int64(codeLifetime) * 1000
            )
            return state.issueCode(code)
        }
    }

    private func send(_ answer: String, to redirect: String, _ query: Form) -> Response {
        let state = query["state"].map { "&state=\($0)" } ?? ""
        return .empty(.found, [.location: redirect + (redirect.contains("?") ? "&" : "?") + answer + state])
    }

    private func form(_ query: Form, client: String) -> String {
        let fields = [
            "response_type", "client_id", "redirect_uri", "state", "scope", "code_challenge", "code_challenge_method",
        ]
        let inputs = fields.compactMap { name in
            query[name].map { "<input type=\"hidden\" name=\"\(name)\" value=\"\(Self.escape($0))\">" }
        }
        return """
            <p>\(Self.escape(client)) asks for access as \(subject).</p>
            <form>\(inputs.joined())
            <button name="decision" value="approve">Allow</button> <button name="decision" value="deny">Deny</button>
            </form>
            """
    }

    private func page(_ text: String, status: HTTPResponse.Status) -> Response {
        let title = "<!doctype html><title>Sandbox sign-in</title><h1>Sandbox sign-in</h1>\n"
        return .text(title + text + "\n", type: "text/html; charset=utf-8", status: status)
    }

    private static func escape(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing("\"", with: "&quot;")
    }
}

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

/// Why a code is not exchanged for a token, in the words of `error_description`.
enum CodeRefusal: String, Error, Sendable {
    case unknown = "The code is unknown or has expired"
    case spent = "The code was used before; the tokens that were issued for it have been revoked"
    case otherClient = "The code was given to another client or redirect_uri"
    case wrongVerifier = "The code_verifier does not match the code_challenge"
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
