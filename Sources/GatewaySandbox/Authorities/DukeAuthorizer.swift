import HTTPTypes
import Hummingbird

/// A mobile authorizer as Duke University's apps know it, and an API that accepts its access tokens.
///
/// Both path shapes are served: `/{client}/ios/refresh` (2019) and `/{client}/refresh` (2022).
struct DukeAuthorizer: Sendable {
    let world: World

    private var access: AccessCheck { AccessCheck(world: world, origin: .duke, authorities: [.duke]) }

    func router() -> Router<SandboxContext> {
        let router = Router(context: SandboxContext.self)
        router.add(middleware: JournalMiddleware(world: world, origin: .duke))
        ControlAPI(world: world, origin: .duke).routes(on: router)
        for shape in ["/:client", "/:client/ios"] {
            router.post(RouterPath(shape + "/refresh")) { request, context in try await refresh(request, context) }
            router.post(RouterPath(shape + "/revoke")) { request, context in try revoke(request, context) }
            router.get(RouterPath(shape + "/login")) { request, context in try login(request, context) }
            router.get(RouterPath(shape + "/token")) { _, _ in
                Response.text("<!doctype html><title>Signed in</title><p>You may close this page.", type: "text/html")
            }
        }
        router.get("/api/me") { request, context in try await me(request, context) }
        return router
    }

    // MARK: Refresh and revoke

    private func refresh(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let client = try context.parameters.require("client")
        let access = request.headers[values: .accessToken]
        let session = request.headers[values: .sessionToken]
        return try await TokenCalls(world: world, origin: .duke).answer(
            grant: "refresh",
            client: client,
            context: context
        ) { state, now, call in
            guard world.accounts.dukeClients.contains(client) else {
                return .refused(.json(["error": "unknown client"], status: .notFound))
            }
            guard access.count == 1, session.count == 1,
                let pair = pair(access[0], session[0], client, &state, now)
            else { return .refused(.json(["error": "tokens not recognised"], status: .badRequest)) }
            state.registry.revoke(family: pair.family)
            state.registry.spend(pair.value)
            let members = issue(WorldState.Grant(renewing: pair, lifetime: call.lifetime), &state, now)
            return .granted(members, envelope: "data")
        }
    }

    /// The session token, if both tokens are the current ones of one login; the access token may have expired.
    private func pair(
        _ access: String,
        _ session: String,
        _ client: String,
        _ state: inout WorldState,
        _ now: Int64
    ) -> IssuedToken? {
        let sessionResult = state.registry.lookUp(session, at: now)
        if case .spent = sessionResult { state.counters.doubleSpends[.duke, default: 0] += 1 }
        guard case .live(let session) = sessionResult, session.kind == .session, session.client == client else {
            return nil
        }
        switch state.registry.lookUp(access, at: now) {
        case .live(let access), .expired(let access):
            return access.kind == .access && access.family == session.family ? session : nil
        case .spent, .revoked, .unknown: return nil
        }
    }

    private func issue(_ grant: WorldState.Grant, _ state: inout WorldState, _ now: Int64) -> [(String, JSON)] {
        let access = state.issue(.access, grant, at: now)
        let session = state.issue(.session, grant, at: now)
        return [("access_token", .string(access.value)), ("session_token", .string(session.value))]
    }

    private func revoke(_ request: Request, _ context: SandboxContext) throws -> Response {
        let client = try context.parameters.require("client")
        guard let session = request.headers[.sessionToken], request.headers[.accessToken] != nil else {
            return .json(["error": "tokens not recognised"], status: .badRequest)
        }
        world.withState { state, now in state.revokeFamily(of: session, issuedBy: .duke, to: client, at: now) }
        return .empty(.ok)
    }

    // MARK: Login

    /// Without `netid` the page a person sees; with it the redirect that carries a new pair, as after single sign-on.
    private func login(_ request: Request, _ context: SandboxContext) throws -> Response {
        let client = try context.parameters.require("client")
        guard world.accounts.dukeClients.contains(client) else {
            return .json(["error": "unknown client"], status: .notFound)
        }
        guard let netID = request.uri.queryParameters["netid"].map(String.init), !netID.isEmpty, netID.count <= 32
        else {
            return .text(
                """
                <!doctype html><title>Sandbox sign-in</title><h1>Sandbox sign-in</h1>
                <form><label>NetID <input name="netid" value="\(world.accounts.netID)"></label> <button>Sign in</button>
                </form>
                """,
                type: "text/html; charset=utf-8"
            )
        }
        let pair = world.withState { state, now in
            let grant = WorldState.Grant(
                authority: .duke,
                client: client,
                subject: netID,
                family: state.registry.newFamily(),
                lifetime: state.switches[.duke]?.tokenLifetime
            )
            return (state.issue(.access, grant, at: now).value, state.issue(.session, grant, at: now).value)
        }
        return .empty(.found, [.location: "/\(client)/token?access_token=\(pair.0)&session_token=\(pair.1)"])
    }

    // MARK: API

    private func me(_ request: Request, _ context: SandboxContext) async throws -> Response {
        switch try await access.check(request, context) {
        case .accepted(let caller):
            return .json(["netid": .optional(caller.token?.subject), "token": .string(caller.name)])
        case .malformed: return BearerRefusal.noCredential
        case .rejected: return BearerRefusal.invalidToken
        case .failure(let status, let retryAfter): return BearerRefusal.response(status, retryAfter: retryAfter)
        }
    }
}

extension WorldState.Grant {
    /// The grant that `token` came from, once more.
    init(renewing token: IssuedToken, lifetime: Int?) {
        self.init(
            authority: token.authority,
            client: token.client,
            subject: token.subject,
            scopes: token.scopes,
            family: token.family,
            lifetime: lifetime
        )
    }
}
