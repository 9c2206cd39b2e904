import GatewayHTTP
import GatewayTokens
import HTTPTypes
import Hummingbird

/// An OAuth 2.0 authorization server by the book: RFC 6749 grants, RFC 7009 revocation, RFC 8414 metadata.
struct OAuthServer: Sendable {
    let world: World

    func router() -> Router<SandboxContext> {
        let router = Router(context: SandboxContext.self)
        router.add(middleware: JournalMiddleware(world: world, origin: .oauth))
        ControlAPI(world: world, origin: .oauth).routes(on: router)
        router.get("/.well-known/oauth-authorization-server") { _, _ in Response.json(metadata()) }
        let page = AuthorizePage(
            world: world,
            origin: .oauth,
            subject: "user:sandbox",
            clients: world.accounts.oauthClients.map(\.id),
            codeLifetime: 60
        )
        router.get("/oauth/authorize") { request, _ in page.answer(request) }
        router.post("/oauth/token") { request, context in try await token(request, context) }
        router.post("/oauth/revoke") { request, _ in try await revoke(request) }
        return router
    }

    private func metadata() -> JSON {
        let issuer = world.withState { state, _ in state.addresses?.oauth } ?? ""
        let methods: JSON = ["client_secret_basic", "client_secret_post"]
        return [
            "issuer": .string(issuer), "authorization_endpoint": .string(issuer + "/oauth/authorize"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "token_endpoint": .string(issuer + "/oauth/token"),
            "revocation_endpoint": .string(issuer + "/oauth/revoke"),
            "grant_types_supported": ["authorization_code", "client_credentials", "password", "refresh_token"],
            "scopes_supported": .array(world.accounts.oauthScopes.map { .string($0) }),
            "token_endpoint_auth_methods_supported": methods, "revocation_endpoint_auth_methods_supported": methods,
        ]
    }

    private func token(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let form = try await TokenCalls.form(of: request)
        let authentication = authenticate(form, request.headers)
        return try await TokenCalls(world: world, origin: .oauth).answer(
            grant: form?["grant_type"] ?? "(none)",
            client: authentication.id ?? "(none)",
            context: context
        ) { state, now, call in
            guard let form, let grant = form["grant_type"] else {
                return .refused(.oauthError("invalid_request", "Not a form, or grant_type is missing"))
            }
            if let refusal = authentication.refusal { return .refused(refusal) }
            switch grant {
            case "client_credentials": return clientCredentials(form, authentication.id ?? "", &state, now, call)
            case "authorization_code": return code(form, authentication.id ?? "", &state, now)
            case "password": return password(form, authentication.id ?? "", &state, now, call)
            case "refresh_token": return refresh(form, authentication.id ?? "", &state, now, call)
            default: return .refused(.oauthError("unsupported_grant_type", "The server does not support this grant"))
            }
        }
    }

    // MARK: Client authentication

    /// RFC 6749 §2.3.1: Basic with both parts form-encoded, or both in the form, and not two ways at once.
    private func authenticate(_ form: Form?, _ fields: HTTPFields) -> (id: String?, refusal: Response?) {
        guard let header = fields[.authorization] else {
            let id = form?["client_id"]
            guard let id, let secret = form?["client_secret"], isKnown(id, secret) else {
                return (id, .oauthError("invalid_client", "Unknown client or wrong secret", status: .unauthorized))
            }
            return (id, nil)
        }
        guard form?["client_secret"] == nil else {
            return (nil, .oauthError("invalid_request", "The client authenticated in two ways"))
        }
        let parts = header.split(separator: " ", maxSplits: 1)
        let pair =
            (parts.count == 2 ? Base64.decodeText(String(parts[1])) : nil)?
            .split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false) ?? []
        guard parts.first?.lowercased() == "basic", pair.count == 2, let id = Form.decode(Array(pair[0].utf8)),
            let secret = Form.decode(Array(pair[1].utf8)), isKnown(id, secret)
        else {
            let challenge: HTTPFields = [.wwwAuthenticate: "Basic realm=\"sandbox\""]
            let refusal = Response.oauthError(
                "invalid_client",
                "Unknown client or wrong secret",
                status: .unauthorized,
                fields: challenge
            )
            return (nil, refusal)
        }
        return (id, nil)
    }

    private func isKnown(_ id: String, _ secret: String) -> Bool {
        world.accounts.oauthClients.contains { $0.id == id && Secret($0.secret).matches(Array(secret.utf8)) }
    }

    // MARK: Grants

    private func clientCredentials(
        _ form: Form,
        _ client: String,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        guard let scopes = scopes(form, within: world.accounts.oauthScopes) else {
            return .refused(.oauthError("invalid_scope", "The client may not have this scope"))
        }
        let grant = WorldState.Grant(
            authority: .oauth,
            client: client,
            subject: "client:\(client)",
            scopes: scopes,
            family: state.registry.newFamily(),
            lifetime: call.lifetime
        )
        return .granted(answer(state.issue(.access, grant, at: now), lifetime: state.lifetime(of: grant)))
    }

    private func code(_ form: Form, _ client: String, _ state: inout WorldState, _ now: Int64) -> TokenAnswer {
        switch state.redeem(form, client: client, at: now) {
        case .failure(let refusal): return .refused(.oauthError("invalid_grant", refusal.rawValue))
        case .success(let grant):
            let access = state.issue(.access, grant, at: now)
            let refresh = state.issue(.refresh, grant, at: now)
            return .granted(
                answer(access, lifetime: state.lifetime(of: grant)) + [("refresh_token", .string(refresh.value))]
            )
        }
    }

    /// RFC 6749 section 4.3. Each login begins a family of its own.
    private func password(
        _ form: Form,
        _ client: String,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        guard form["username"] == world.accounts.oauthUser, form["password"] == world.accounts.oauthPassword else {
            return .refused(.oauthError("invalid_grant", "Unknown user or wrong password"))
        }
        guard let scopes = scopes(form, within: world.accounts.oauthScopes) else {
            return .refused(.oauthError("invalid_scope", "The user may not have this scope"))
        }
        let grant = WorldState.Grant(
            authority: .oauth,
            client: client,
            subject: "user:\(world.accounts.oauthUser)",
            scopes: scopes,
            family: state.registry.newFamily(),
            lifetime: call.lifetime
        )
        let access = state.issue(.access, grant, at: now)
        let refresh = state.issue(.refresh, grant, at: now)
        return .granted(
            answer(access, lifetime: state.lifetime(of: grant)) + [("refresh_token", .string(refresh.value))]
        )
    }

    /// Rotates; the reuse of a spent refresh token ends all that came from its grant (RFC 9700 §4.14.2).
    private func refresh(
        _ form: Form,
        _ client: String,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        guard let value = form["refresh_token"] else {
            return .refused(.oauthError("invalid_request", "refresh_token is missing"))
        }
        let result = state.registry.lookUp(value, at: now)
        if case .spent(let token) = result {
            state.counters.doubleSpends[.oauth, default: 0] += 1
            state.registry.revoke(family: token.family)
        }
        guard case .live(let token) = result, token.kind == .refresh, token.authority == .oauth,
            token.client == client
        else {
            return .refused(.oauthError("invalid_grant", "The refresh token is invalid, expired, revoked or spent"))
        }
        guard let scopes = scopes(form, within: token.scopes) else {
            return .refused(.oauthError("invalid_scope", "The scope was not granted"))
        }
        let whole = WorldState.Grant(renewing: token, lifetime: call.lifetime)
        var narrowed = whole
        narrowed.scopes = scopes
        let access = state.issue(.access, narrowed, at: now)
        var members = answer(access, lifetime: state.lifetime(of: narrowed))
        if call.rotatesRefreshToken {
            state.registry.spend(value)
            members.append(("refresh_token", .string(state.issue(.refresh, whole, at: now).value)))
        }
        return .granted(members)
    }

    private func scopes(_ form: Form, within allowed: [String]) -> [String]? {
        guard let asked = form["scope"]?.split(separator: " ").map(String.init) else { return allowed }
        return asked.allSatisfy(allowed.contains) ? asked : nil
    }

    private func answer(_ token: IssuedToken, lifetime: Int) -> [(String, JSON)] {
        [
            ("access_token", .string(token.value)), ("token_type", "Bearer"), ("expires_in", .integer(lifetime)),
            ("scope", .string(token.scopes.joined(separator: " "))),
        ]
    }

    private func revoke(_ request: Request) async throws -> Response {
        let form = try await TokenCalls.form(of: request)
        let authentication = authenticate(form, request.headers)
        if let refusal = authentication.refusal { return refusal }
        guard let value = form?["token"] else { return .oauthError("invalid_request", "token is missing") }
        world.withState { state, now in
            state.revokeFamily(of: value, issuedBy: .oauth, to: authentication.id, at: now)
        }
        return .empty(.ok)
    }
}
