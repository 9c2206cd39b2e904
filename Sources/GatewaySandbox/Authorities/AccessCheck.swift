import GatewayHTTP
import HTTPTypes
import Hummingbird

/// Decides whether a request to an API carries a credential that is good there.
struct AccessCheck: Sendable {
    struct Caller: Sendable {
        /// nil for a credential that no authority issued.
        let token: IssuedToken?
        let scheme: String
        let name: String
    }

    enum Outcome: Sendable {
        case accepted(Caller)
        /// No credential, or one that cannot be read.
        case malformed
        /// Unknown, expired, spent or revoked.
        case rejected
        /// Good, but a switch says that the request fails.
        case failure(status: Int, retryAfter: String?)
    }

    let world: World
    let origin: OriginName
    /// Whose access tokens are good here.
    let authorities: Set<OriginName>
    /// Whether the upstream's own user, token and API key are good here.
    var acceptsFixedCredentials = false

    /// Decides, counts and notes the outcome in the journal; sleeps if a switch says so.
    func check(_ request: Request, _ context: SandboxContext) async throws -> Outcome {
        let (outcome, delay) = world.withState { state, now in
            let (outcome, note) = decide(request.headers, in: &state, at: now)
            state.journal.update(context.sequence) { $0.authorization = note }
            switch outcome {
            case .accepted: state.counters.accepted[origin, default: 0] += 1
            case .malformed, .rejected: state.counters.rejected[origin, default: 0] += 1
            case .failure(let status, _) where status == 403: state.counters.forbidden[origin, default: 0] += 1
            case .failure: break
            }
            return (outcome, state.switches[origin]?.apiDelay ?? 0)
        }
        if delay > 0 { try await Task.sleep(for: .milliseconds(delay)) }
        return outcome
    }

    private func decide(_ fields: HTTPFields, in state: inout WorldState, at now: Int64) -> (Outcome, JSON) {
        let values = fields[values: .authorization]
        if acceptsFixedCredentials, values.isEmpty, let key = fields[.apiKey] {
            let isGood = Secret(world.accounts.upstreamAPIKey).matches(Array(key.utf8))
            return judge(
                isGood ? Caller(token: nil, scheme: "X-Api-Key", name: "api-key") : nil,
                "X-Api-Key",
                "",
                &state
            )
        }
        guard values.count == 1, let space = values[0].firstIndex(of: " ") else {
            return (.malformed, ["values": .integer(values.count), "accepted": false])
        }
        let scheme = String(values[0][..<space])
        let credential = String(values[0][values[0].index(after: space)...])
        switch scheme.lowercased() {
        case "bearer" where acceptsFixedCredentials && credential == world.accounts.upstreamToken:
            return judge(Caller(token: nil, scheme: scheme, name: "fixed-token"), scheme, "", &state)
        case "bearer":
            let (token, reason) = look(up: credential, in: &state, at: now)
            let caller = token.map { Caller(token: $0, scheme: scheme, name: $0.id) }
            return judge(caller, scheme, reason, &state)
        case "basic" where acceptsFixedCredentials:
            let expected = "\(world.accounts.upstreamUser):\(world.accounts.upstreamPassword)"
            let isGood = Base64.decodeText(credential) == expected
            let caller = isGood ? Caller(token: nil, scheme: scheme, name: world.accounts.upstreamUser) : nil
            return judge(caller, scheme, "unknown", &state)
        default:
            return (.malformed, ["scheme": .string(scheme), "accepted": false])
        }
    }

    private func look(
        up credential: String,
        in state: inout WorldState,
        at now: Int64
    ) -> (token: IssuedToken?, reason: String) {
        switch state.registry.lookUp(credential, at: now) {
        case .live(let token) where token.kind == .access && authorities.contains(token.authority):
            state.registry.confirmUse(of: credential)
            return (token, "live")
        case .live(let token): return (nil, "\(token.authority.rawValue) \(token.kind.rawValue) token")
        case .expired(let token): return (nil, "\(token.id) expired")
        case .revoked(let token): return (nil, "\(token.id) revoked")
        case .spent(let token): return (nil, "\(token.id) spent")
        case .unknown: return (nil, "unknown")
        }
    }

    private func judge(
        _ caller: Caller?,
        _ scheme: String,
        _ reason: String,
        _ state: inout WorldState
    ) -> (Outcome, JSON) {
        guard let caller else {
            return (.rejected, ["scheme": .string(scheme), "accepted": false, "reason": .string(reason)])
        }
        let note: JSON = [
            "scheme": .string(scheme), "accepted": true, "credential": .string(caller.name),
            "subject": .optional(caller.token?.subject),
        ]
        switch state.switches[origin, default: Switches()].takeAPIFailure() {
        case nil:
            return (.accepted(caller), note)
        case .rejected:
            return (.rejected, ["scheme": .string(scheme), "accepted": false, "reason": "switch reject_next"])
        case .status(let status, let retryAfter):
            return (.failure(status: status, retryAfter: retryAfter), note)
        }
    }
}

/// How a resource server that follows RFC 6750 §3 says no.
enum BearerRefusal {
    static let noCredential = Response.json(
        ["error": "unauthorized"],
        status: .unauthorized,
        fields: [.wwwAuthenticate: "Bearer realm=\"sandbox\""]
    )
    static let invalidToken = challenge(
        .unauthorized,
        "invalid_token",
        "The access token expired, was revoked or is unknown"
    )
    static let wrongPassword = Response.json(
        ["error": "unauthorized"],
        status: .unauthorized,
        fields: [.wwwAuthenticate: "Basic realm=\"sandbox\", charset=\"UTF-8\""]
    )

    static func response(_ status: Int, retryAfter: String?) -> Response {
        var response: Response
        switch status {
        case 401: response = invalidToken
        case 403: response = challenge(.forbidden, "insufficient_scope", "The token does not allow this")
        default:
            response = .json(["error": "the sandbox was told to fail"], status: HTTPResponse.Status(code: status))
        }
        response.headers[.retryAfter] = retryAfter
        return response
    }

    private static func challenge(_ status: HTTPResponse.Status, _ error: String, _ description: String) -> Response {
        let value = "Bearer realm=\"sandbox\", error=\"\(error)\", error_description=\"\(description)\""
        return .json(["error": .string(error)], status: status, fields: [.wwwAuthenticate: value])
    }
}
