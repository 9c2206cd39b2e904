import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

@testable import GatewayProxy

/// Asks a ``RequestAuthorizer`` about a request that is written as text.
struct AuthorizerFixture {
    let authorizer: RequestAuthorizer

    /// - Parameters:
    ///   - clients: Names; the token of a client is `NAME-token`.
    ///   - certificates: More clients.
    init(
        _ routes: [RoutePlan],
        clients: [String] = [],
        origins: [String] = [],
        requireClient: AccessPlan.RequireClient = .auto,
        connect: [ListenerPlan.Address: ConnectPlan] = [:],
        certificates: [AccessPlan.Client] = [],
        uses: ClientTokenUses? = nil
    ) {
        let named = clients.map { AccessPlan.Client(name: $0, proof: .token(Secret("\($0)-token"))) }
        let known = named + certificates
        authorizer = RequestAuthorizer(
            routes: routes.map { plan in
                RequestAuthorizer.Route(
                    plan: plan,
                    places: ClientAuthenticator.Places(fields: [], query: nil),
                    selection: nil
                )
            },
            access: AccessPlan(clients: known, allowedOrigins: origins, requireClient: requireClient),
            connect: connect,
            uses: uses,
            viaName: "authgateway",
            sha256: { $0 }
        )
    }

    static func route(
        _ name: String,
        credential: Int? = nil,
        headers: RoutePlan.Headers = RoutePlan.Headers(),
        allowsConnectionAuth: Bool = false,
        endpoints: [AuthorityEndpoint] = [],
        allow: [RoutePlan.Allow] = [],
        clients: [String]? = nil
    ) -> RoutePlan {
        RoutePlan(
            name: name,
            upstream: Origin(scheme: .https, host: "up.example", port: 443),
            upstreamPath: "",
            matchPath: "/\(name)",
            matchHosts: ["\(name).localhost"],
            credential: credential,
            headers: headers,
            allowsConnectionAuth: allowsConnectionAuth,
            allow: allow,
            endpoints: endpoints,
            clients: clients,
            span: SourceSpan(file: 0, line: 1, column: 1)
        )
    }

    /// - Returns: nil where the head cannot be read.
    func decide(
        _ request: String,
        on reach: ConnectionContext.Reach = .loopback,
        isTLS: Bool = false
    ) -> RequestAuthorizer.Decision? {
        var trace: AuthorizationTrace?
        return decide(request, on: reach, isTLS: isTLS, &trace)
    }

    /// The reasons for the decision; nil where the head cannot be read.
    ///
    /// - Parameter client: As whom the request is judged.
    func trace(
        _ request: String,
        on reach: ConnectionContext.Reach = .loopback,
        routes: [RoutePlan],
        as client: String? = nil
    ) -> AuthorizationTrace? {
        var trace: AuthorizationTrace? = AuthorizationTrace(routes: routes, assuming: client)
        guard decide(request, on: reach, isTLS: false, &trace) != nil else { return nil }
        return trace
    }

    /// Decides about a CONNECT; nil where the head cannot be read.
    func connect(
        _ request: String,
        intercepts: Bool = true,
        inPlaceOf origin: InterceptedOrigin? = nil,
        at address: ListenerPlan.Address? = nil
    ) -> RequestAuthorizer.ConnectDecision? {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array(request.utf8)
        guard case .head = decoder.decode(bytes.span) else { return nil }
        let listener = ConnectionContext(
            reach: .loopback,
            port: 8080,
            intercepts: intercepts,
            intercepted: origin,
            address: address
        )
        return authorizer.decideConnect(decoder.head, bytes.span, on: listener)
    }

    /// Decides about a request on a listener that takes CONNECT; nil where the head cannot be read.
    func decide(_ request: String, at address: ListenerPlan.Address) -> RequestAuthorizer.Decision? {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array(request.utf8)
        guard case .head = decoder.decode(bytes.span) else { return nil }
        var cache = ClientAuthenticationCache()
        var trace: AuthorizationTrace?
        let listener = ConnectionContext(reach: .loopback, port: 8080, intercepts: true, address: address)
        return authorizer.decide(decoder.head, bytes.span, on: listener, cache: &cache, trace: &trace)
    }

    /// Decides about a request on a connection whose CONNECT was taken.
    func decide(_ request: String, inPlaceOf origin: InterceptedOrigin) -> RequestAuthorizer.Decision? {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array(request.utf8)
        guard case .head = decoder.decode(bytes.span) else { return nil }
        var cache = ClientAuthenticationCache()
        var trace: AuthorizationTrace?
        let listener = ConnectionContext(reach: .loopback, port: 8080, intercepts: true).intercepting(origin)
        return authorizer.decide(decoder.head, bytes.span, on: listener, cache: &cache, trace: &trace)
    }

    /// Decides about a request on a connection whose client has shown a certificate; nil where the head cannot be read.
    func decide(_ request: String, from peer: PeerIdentity, isTLS: Bool = false) -> RequestAuthorizer.Decision? {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array(request.utf8)
        guard case .head = decoder.decode(bytes.span) else { return nil }
        var cache = ClientAuthenticationCache()
        var trace: AuthorizationTrace?
        let listener = ConnectionContext(reach: .network, port: 8080, isTLS: isTLS).identifying(peer)
        return authorizer.decide(decoder.head, bytes.span, on: listener, cache: &cache, trace: &trace)
    }

    private func decide(
        _ request: String,
        on reach: ConnectionContext.Reach,
        isTLS: Bool,
        _ trace: inout AuthorizationTrace?
    ) -> RequestAuthorizer.Decision? {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array(request.utf8)
        guard case .head = decoder.decode(bytes.span) else { return nil }
        var cache = ClientAuthenticationCache()
        let listener = ConnectionContext(reach: reach, port: reach == .unix ? nil : 8080, isTLS: isTLS)
        return authorizer.decide(decoder.head, bytes.span, on: listener, cache: &cache, trace: &trace)
    }

    /// nil where the request is refused.
    func admission(_ request: String, on reach: ConnectionContext.Reach) -> RequestAuthorizer.Admitted? {
        switch decide(request, on: reach) {
        case .admitted(let admitted)?: admitted
        default: nil
        }
    }

    /// nil where the request is not the question of a browser.
    func preflight(_ request: String, on reach: ConnectionContext.Reach = .loopback) -> Preflight? {
        switch decide(request, on: reach) {
        case .preflight(let preflight)?: preflight
        default: nil
        }
    }

    /// Fields of an answer of the gateway's own to such a request.
    func crossOriginFields(_ request: String) -> [ProblemAnswer.Field] {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array(request.utf8)
        guard case .head = decoder.decode(bytes.span) else { return [] }
        return authorizer.crossOriginFields(
            decoder.head,
            bytes.span,
            on: ConnectionContext(reach: .loopback, port: 8080)
        )
    }

    /// On a request that was admitted for this client before a reload; nil where it is not refused.
    func verdict(_ request: String, of client: String?) -> ReloadWithdrawal.Verdict? {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array(request.utf8)
        guard case .head = decoder.decode(bytes.span), let refusal = refusal(request) else { return nil }
        let listener = ConnectionContext(reach: .loopback, port: 8080)
        return authorizer.verdict(refusal, of: client, decoder.head, bytes.span, on: listener)
    }

    /// nil where the request is admitted.
    func refusal(
        _ request: String,
        on reach: ConnectionContext.Reach = .loopback,
        isTLS: Bool = false
    ) -> RequestAuthorizer.Refusal? {
        switch decide(request, on: reach, isTLS: isTLS) {
        case .refused(let refusal)?: refusal
        default: nil
        }
    }
}
