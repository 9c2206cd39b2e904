import GatewayCore
import HTTPTypes
import Hummingbird

/// Token and revocation endpoint as Box has them, and the API behind them on the same origin.
struct BoxAuthority: Sendable {
    static let tokenType = "urn:ietf:params:oauth:token-type:access_token"
    private static let exchange = "urn:ietf:params:oauth:grant-type:token-exchange"

    let world: World

    func router() -> Router<SandboxContext> {
        let router = Router(context: SandboxContext.self)
        router.add(middleware: JournalMiddleware(world: world, origin: .box))
        ControlAPI(world: world, origin: .box).routes(on: router)
        let page = AuthorizePage(
            world: world,
            origin: .box,
            subject: "user:2000001",
            clients: world.accounts.boxClients.map(\.id),
            codeLifetime: 30
        )
        // At Box another host has this page: account.box.com.
        router.get("/api/oauth2/authorize") { request, _ in page.answer(request) }
        router.post("/oauth2/token") { request, context in try await token(request, context) }
        router.post("/oauth2/revoke") { request, _ in try await revoke(request) }
        BoxAPI(world: world).routes(on: router)
        return router
    }

    private func token(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let form = try await TokenCalls.form(of: request)
        let grant = form?["grant_type"] ?? "(none)"
        return try await TokenCalls(world: world, origin: .box).answer(
            grant: grant,
            client: form?["client_id"] ?? "(none)",
            context: context
        ) { state, now, call in
            guard let form, grant != "(none)" else {
                return .refused(.oauthError("invalid_request", "Invalid grant_type parameter or parameter missing"))
            }
            if grant == Self.exchange { return exchange(form, &state, now, call) }
            guard isKnownClient(form) else {
                return .refused(.oauthError("invalid_client", "The client credentials are invalid"))
            }
            switch grant {
            case "client_credentials": return clientCredentials(form, &state, now, call)
            case "authorization_code": return code(form, &state, now)
            case "refresh_token": return refresh(form, &state, now, call)
            case BoxAssertion.grantType: return assertion(form, &state, now, call)
            default:
                return .refused(
                    .oauthError("unauthorized_client", "The grant type is unauthorized for this client_id")
                )
            }
        }
    }

    /// Box reads the client's credentials from the form alone.
    private func isKnownClient(_ form: Form) -> Bool {
        guard let id = form["client_id"], let secret = form["client_secret"] else { return false }
        return world.accounts.boxClients.contains { $0.id == id && Secret($0.secret).matches(Array(secret.utf8)) }
    }

    private func knows(_ type: String?, _ id: String) -> Bool {
        switch type {
        case "enterprise": id == world.accounts.boxEnterprise
        case "user": world.accounts.boxUsers[id] != nil
        default: false
        }
    }

    /// A signed statement about whom the token shall speak for (RFC 7523 §2.1).
    private func assertion(
        _ form: Form,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        let client = form["client_id"] ?? ""
        let assertion: BoxAssertion
        do throws(BoxAssertion.Refusal) {
            assertion = try BoxAssertion(form["assertion"] ?? "")
            try assertion.check(for: client, at: now, against: &state.assertionIDs)
            guard knows(assertion.subjectType, assertion.subject) else { throw .unknownSubject }
        } catch {
            return .refused(.oauthError("invalid_grant", error.rawValue))
        }
        let grant = WorldState.Grant(
            authority: .box,
            client: client,
            subject: "\(assertion.subjectType):\(assertion.subject)",
            family: state.registry.newFamily(),
            lifetime: call.lifetime
        )
        return .granted(answer(state.issue(.access, grant, at: now), lifetime: state.lifetime(of: grant)))
    }

    private func clientCredentials(
        _ form: Form,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        let id = form["box_subject_id"] ?? ""
        switch form["box_subject_type"] {
        case "enterprise" where knows("enterprise", id): break
        case "user" where knows("user", id): break
        case "enterprise", "user": return .refused(.oauthError("invalid_grant", "Grant credentials are invalid"))
        default:
            return .refused(
                .oauthError(
                    "unauthorized_client",
                    "The \"box_subject_type\" value is unauthorized for this client_id"
                )
            )
        }
        let grant = WorldState.Grant(
            authority: .box,
            client: form["client_id"] ?? "",
            subject: "\(form["box_subject_type"] ?? ""):\(id)",
            family: state.registry.newFamily(),
            lifetime: call.lifetime
        )
        return .granted(answer(state.issue(.access, grant, at: now), lifetime: state.lifetime(of: grant)))
    }

    private func code(_ form: Form, _ state: inout WorldState, _ now: Int64) -> TokenAnswer {
        switch state.redeem(form, client: form["client_id"] ?? "", at: now) {
        case .failure:
            return .refused(.oauthError("invalid_grant", "Auth code doesn't exist or is invalid for the client"))
        case .success(let grant):
            let access = state.issueSuccessor(grant, at: now)
            let refresh = state.issue(.refresh, grant, at: now)
            return .granted(
                answer(access, lifetime: state.lifetime(of: grant)) + [("refresh_token", .string(refresh.value))]
            )
        }
    }

    /// Single use: the old refresh token ends now, the old access token when the new one is first used.
    private func refresh(
        _ form: Form,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        guard let value = form["refresh_token"] else {
            return .refused(.oauthError("invalid_request", "Invalid refresh_token parameter or parameter missing"))
        }
        let spent: IssuedToken
        switch state.registry.lookUp(value, at: now) {
        case .live(let token)
        where token.kind == .refresh && token.authority == .box && token.client == form["client_id"]:
            spent = token
        case .spent:
            state.counters.doubleSpends[.box, default: 0] += 1
            return .refused(.oauthError("invalid_grant", "Refresh token has expired"))
        case .expired: return .refused(.oauthError("invalid_grant", "Refresh token has expired"))
        case .live, .revoked, .unknown: return .refused(.oauthError("invalid_grant", "Invalid refresh token"))
        }
        let grant = WorldState.Grant(renewing: spent, lifetime: call.lifetime)
        let access = state.issueSuccessor(grant, at: now)
        var members = answer(access, lifetime: state.lifetime(of: grant))
        if call.rotatesRefreshToken {
            state.registry.spend(value)
            members.append(("refresh_token", .string(state.issue(.refresh, grant, at: now).value)))
        }
        return .granted(members)
    }

    /// RFC 8693, as Box uses it to hand out a weaker token: no client credentials, no refresh token.
    private func exchange(
        _ form: Form,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        guard form["subject_token_type"] == Self.tokenType, let value = form["subject_token"],
            let scope = form["scope"]
        else { return .refused(.oauthError("invalid_request", "Invalid subject_token parameter or parameter missing")) }
        guard case .live(let parent) = state.registry.lookUp(value, at: now), parent.kind == .access,
            parent.authority == .box
        else { return .refused(.oauthError("invalid_grant", "Invalid subject token")) }
        guard form["resource"] == nil || form["box_shared_link"] == nil else {
            return .refused(.oauthError("invalid_request", "resource and box_shared_link exclude each other"))
        }
        let scopes = scope.split(separator: " ").map(String.init)
        guard scopes.allSatisfy({ parent.scopes.isEmpty ? BoxScopes.all.contains($0) : parent.scopes.contains($0) })
        else {
            return .refused(.oauthError("invalid_scope", "The scope is not held", status: .unauthorized))
        }
        let grant = WorldState.Grant(
            authority: .box,
            client: parent.client,
            subject: parent.subject,
            scopes: scopes,
            family: parent.family,
            lifetime: call.lifetime
        )
        let child = state.issue(.access, grant, at: now)
        var members = answer(child, lifetime: state.lifetime(of: grant)).filter { $0.0 != "restricted_to" }
        members.append(("restricted_to", .array(scopes.map { Self.restriction($0, to: form["resource"]) })))
        members.append(("issued_token_type", .string(Self.tokenType)))
        return .granted(members)
    }

    private static func restriction(_ scope: String, to resource: String?) -> JSON {
        guard let parts = resource?.split(separator: "/").suffix(2), parts.count == 2 else {
            return ["scope": .string(scope)]
        }
        let type = String(parts.first?.dropLast() ?? "")
        return [
            "scope": .string(scope),
            "object": [
                "type": .string(type), "id": .string(String(parts.last ?? "")), "sequence_id": "0", "etag": "0",
                "name": .string("sandbox \(type)"),
            ],
        ]
    }

    private func answer(_ token: IssuedToken, lifetime: Int) -> [(String, JSON)] {
        [
            ("access_token", .string(token.value)), ("expires_in", .integer(lifetime)),
            ("restricted_to", .array([])), ("token_type", "bearer"),
        ]
    }

    /// Either token of a pair ends both.
    private func revoke(_ request: Request) async throws -> Response {
        guard let form = try await TokenCalls.form(of: request), let value = form["token"] else {
            return .oauthError("invalid_request", "Invalid token parameter or parameter missing")
        }
        guard isKnownClient(form) else {
            return .oauthError("invalid_client", "The client credentials are invalid")
        }
        world.withState { state, now in state.revokeFamily(of: value, issuedBy: .box, to: form["client_id"], at: now) }
        return .empty(.ok)
    }
}
