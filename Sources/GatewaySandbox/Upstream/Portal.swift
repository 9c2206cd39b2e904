import GatewayHTTP
import GatewayTokens
import HTTPTypes
import Hummingbird

/// Two logins that follow no standard, for the recipes of `examples/recipes`: an API that answers 200 to everything and
/// wraps its JSON (`/v1`), and a web application with a form, a CSRF token and a session cookie.
struct Portal: Sendable {
    private enum Client: String {
        case wrapped
        case webapp
    }

    let world: World

    func routes(on router: Router<SandboxContext>) {
        router.post("/v1/session") { request, context in try await openSession(request, context) }
        router.delete("/v1/session") { request, _ in closeSession(request) }
        router.get("/v1/me") { request, context in me(request.headers[.session], .wrapped, context) }
        router.get("/login") { _, _ in form(for: nil, action: "/login") }
        router.post("/login") { request, context in try await logIn(request, context) }
        router.get("/app/me") { request, context in me(Self.cookie("session", of: request), .webapp, context) }
        router.get("/app/account") { request, _ in account(request) }
        router.post("/logout") { request, _ in try await logOut(request) }
    }

    // MARK: The API

    private func openSession(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let key = request.headers[.apiKey] ?? ""
        return try await TokenCalls(world: world, origin: .upstream).answer(
            grant: "session",
            client: Client.wrapped.rawValue,
            context: context
        ) { state, now, call in
            guard Secret(world.accounts.upstreamAPIKey).matches(Array(key.utf8)) else {
                return .refused(.json(["ok": false, "error": "access_denied"]))
            }
            let token = issue(.wrapped, &state, now, call)
            let credential: JSON = [
                "value": .string(token.value),
                "valid_until": .string(UnixTime(milliseconds: token.expiresAt).rfc3339),
            ]
            return .granted([("ok", true), ("result", ["credentials": .array([credential])])])
        }
    }

    private func closeSession(_ request: Request) -> Response {
        let isOpen = world.withState { state, now in
            end(request.headers[.session], of: .wrapped, &state, at: now)
        }
        return .json(isOpen ? ["ok": true] : ["ok": false, "error": "invalid_token"])
    }

    // MARK: The web application

    private func form(for visitor: String?, action: String) -> Response {
        let (visit, csrf) = world.withState { state, _ in state.visits.open(visitor) }
        let fields: HTTPFields = visitor == nil ? [.setCookie: "visit=\(visit); Path=/; HttpOnly"] : [:]
        let page = """
            <!doctype html><title>Sandbox application</title>
            <form method="post" action="\(action)"><input type="hidden" name="csrf" value="\(csrf)"><button>Go</button></form>

            """
        return .text(page, type: "text/html; charset=utf-8", fields: fields)
    }

    private func logIn(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let visit = Self.cookie("visit", of: request) ?? ""
        let form = try await TokenCalls.form(of: request)
        return try await TokenCalls(world: world, origin: .upstream).answer(
            grant: "login",
            client: Client.webapp.rawValue,
            context: context
        ) { state, now, call in
            guard let csrf = form?["csrf"], state.visits.close(visit, csrf: csrf) else {
                return .refused(.text("The form has expired.\n", status: .forbidden))
            }
            guard form?["user"] == world.accounts.upstreamUser, form?["password"] == world.accounts.upstreamPassword
            else { return .refused(.text("Wrong user or password.\n", status: .unauthorized)) }
            let token = issue(.webapp, &state, now, call)
            let cookie = "session=\(token.value); Path=/; HttpOnly; SameSite=Lax"
            return .refused(.empty(.found, [.setCookie: cookie, .location: "/app/me"]))
        }
    }

    private func account(_ request: Request) -> Response {
        guard let session = Self.cookie("session", of: request), isLive(session, .webapp) else {
            return .empty(.unauthorized)
        }
        return form(for: session, action: "/logout")
    }

    private func logOut(_ request: Request) async throws -> Response {
        let session = Self.cookie("session", of: request) ?? ""
        let csrf = try await TokenCalls.form(of: request)?["csrf"] ?? ""
        return world.withState { state, now in
            guard state.visits.close(session, csrf: csrf), end(session, of: .webapp, &state, at: now) else {
                return .text("The form has expired.\n", status: .forbidden)
            }
            return .empty(.found, [.location: "/login"])
        }
    }

    // MARK: Tokens

    private func issue(
        _ client: Client,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> IssuedToken {
        let grant = WorldState.Grant(
            authority: .upstream,
            client: client.rawValue,
            subject: world.accounts.upstreamUser,
            family: state.registry.newFamily(),
            lifetime: call.lifetime
        )
        return state.issue(.access, grant, at: now)
    }

    /// - Returns: Whether it was still open.
    private func end(_ session: String?, of client: Client, _ state: inout WorldState, at now: Int64) -> Bool {
        guard let session, case .live(let token) = state.registry.lookUp(session, at: now),
            token.authority == .upstream, token.client == client.rawValue
        else { return false }
        state.registry.revoke(family: token.family)
        return true
    }

    private func isLive(_ session: String, _ client: Client) -> Bool {
        world.withState { state, now in
            guard case .live(let token) = state.registry.lookUp(session, at: now) else { return false }
            return token.authority == .upstream && token.client == client.rawValue
        }
    }

    private func me(_ session: String?, _ client: Client, _ context: SandboxContext) -> Response {
        guard let session, isLive(session, client) else { return .empty(.unauthorized) }
        return .json(["user": .string(world.accounts.upstreamUser), "client": .string(client.rawValue)])
    }

    private static func cookie(_ name: String, of request: Request) -> String? {
        for field in request.headers[values: .cookie] {
            for pair in field.split(separator: ";") {
                let text = pair.drop { $0 == " " }
                if text.hasPrefix("\(name)=") { return String(text.dropFirst(name.count + 1)) }
            }
        }
        return nil
    }
}

/// The forms of a web application that were shown and not yet sent: each has a CSRF token, which counts once.
///
/// A thousand of them at most, the oldest are forgotten first.
struct FormVisits: Sendable {
    private static let capacity = 1000
    private var tokens: [String: String] = [:]
    private var order: [String] = []

    /// - Parameter visitor: The cookie that the form belongs to; nil for somebody new.
    mutating func open(_ visitor: String?) -> (visit: String, csrf: String) {
        let visit = visitor ?? Self.random()
        let csrf = Self.random()
        if tokens[visit] == nil { order.append(visit) }
        tokens[visit] = csrf
        if order.count > Self.capacity { tokens[order.removeFirst()] = nil }
        return (visit, csrf)
    }

    /// - Returns: Whether such a form was shown to this visitor.
    mutating func close(_ visit: String, csrf: String) -> Bool {
        guard tokens[visit] == csrf else { return false }
        tokens[visit] = nil
        order.removeAll { $0 == visit }
        return true
    }

    private static func random() -> String { String(UInt128.random(in: .min ... .max), radix: 36) }
}
