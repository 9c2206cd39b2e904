import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Any authorizer with two tokens: an access token for upstreams, and a session token that renews it.
struct SessionRefreshStrategy: AuthStrategy {
    static let kind = "session_refresh"
    static let hasSessions = true

    private let grant: SessionRefreshGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let clientName = SessionPaths.clientName(in: fields, isRequired: false)
        let paths = SessionPaths(base: SessionPaths.base(in: fields), clientName: clientName)
        if !fields.has("refresh") { fields.missing("refresh") }
        let refresh = Self.request("refresh", in: fields, paths: paths, defaults: nil)
        let revoke = Self.request("revoke", in: fields, paths: paths, defaults: refresh)
        let login = Self.login(in: fields, paths: paths)
        let rotate = fields.choice("rotate", of: Rotate.self) ?? .both
        let response = Self.response(in: fields)
        let expiry = ExpiryRule(in: fields)
        let sessionLifetime = fields.sessionLifetime()
        let statuses = StatusMap(in: fields)
        let seeds = SessionRefreshGrant.Seeds(in: fields)
        guard let refresh, let response, fields.context.errorCount == errors else { return nil }
        grant = SessionRefreshGrant(
            strategy: Self.kind,
            clientName: clientName,
            configPath: fields.path.description,
            refresh: refresh,
            revoke: revoke,
            page: login.map {
                SessionLogin(
                    loginURL: $0.page,
                    landings: [$0.landing],
                    expiry: expiry,
                    sessionLifetime: sessionLifetime
                )
            },
            accessPointer: response.access,
            sessionPointer: response.session,
            expiry: expiry,
            expiryPointer: response.expiresIn,
            sessionLifetime: sessionLifetime,
            rotatesRefreshToken: rotate == .both,
            statuses: statuses,
            seeds: seeds
        )
    }

    var behavior: AuthBehavior { .token(grant) }

    private enum Rotate: String, CaseIterable {
        case both
        case accessOnly = "access_only"
    }

    private enum RequestMethod: String, CaseIterable {
        case get = "GET"
        case post = "POST"
    }

    /// `{method, path, access_token: {header}, session_token: {header}}`; a revocation writes what the refresh does
    /// unless it says otherwise.
    private static func request(
        _ key: String,
        in fields: ConfigFields,
        paths: SessionPaths,
        defaults: SessionRequest?
    ) -> SessionRequest? {
        guard let request = fields.fields(key) else { return nil }
        request.explain(requestMeanings)
        defer { request.refuseUnknownKeys() }
        let method = request.choice("method", of: RequestMethod.self) ?? .post
        let access = header("access_token", in: request) ?? defaults?.accessField
        let session = header("session_token", in: request) ?? defaults?.sessionField
        if session == nil, !request.has("session_token") {
            request.error("missing key \"session_token\": {header: NAME}")
        }
        guard let url = paths.url(in: request), let session else { return nil }
        return SessionRequest(
            method: method == .get ? .get : .post,
            url: url,
            accessField: access,
            sessionField: session
        )
    }

    private static func header(_ key: String, in fields: ConfigFields) -> String? {
        guard let place = fields.fields(key) else { return nil }
        place.explain(["header": KeyMeaning("The header field with the token.", example: "X-Token")])
        defer { place.refuseUnknownKeys() }
        guard place.has("header") else {
            place.missing("header")
            return nil
        }
        return place.fieldName("header")
    }

    /// `{path, token_path}`: the page where a person logs in, and where the browser is sent with both tokens.
    private static func login(
        in fields: ConfigFields,
        paths: SessionPaths
    ) -> (page: AuthorityURL, landing: AuthorityURL)? {
        guard let login = fields.fields("login") else { return nil }
        login.explain([
            "path": KeyMeaning("The path of the login page. {client_name} is filled in.", example: "/portal/login"),
            "token_path": KeyMeaning(
                "The path where a login ends, with the tokens in its query.",
                default: "/token",
                example: "/portal/token"
            ),
        ])
        defer { login.refuseUnknownKeys() }
        let landing = login.has("token_path") ? paths.url(in: login, "token_path") : paths.url(path: "/token")
        guard let page = paths.url(in: login), let landing else { return nil }
        return (page, landing)
    }

    private static func response(
        in fields: ConfigFields
    ) -> (access: JSONPointer, session: JSONPointer, expiresIn: JSONPointer)? {
        let response = fields.fields("response")
        response?.explain([
            "access_token": KeyMeaning(
                "Where the access token is.",
                default: "/access_token",
                example: "/data/access_token"
            ),
            "session_token": KeyMeaning(
                "Where the session token is.",
                default: "/session_token",
                example: "/data/session_token"
            ),
            "expires_in": SharedMeanings.expiresIn,
        ])
        func pointer(_ key: String) -> JSONPointer? {
            guard let text = response?.string(key) else { return JSONPointer("/\(key)") }
            guard let pointer = JSONPointer(text) else {
                response?.error(key, "expected a JSON pointer such as /data/\(key) (RFC 6901)")
                return nil
            }
            return pointer
        }
        let (access, session) = (pointer("access_token"), pointer("session_token"))
        let expiresIn = pointer("expires_in")
        response?.refuseUnknownKeys()
        guard let access, let session, let expiresIn else { return nil }
        return (access, session, expiresIn)
    }
}

extension SessionRefreshGrant.Seeds {
    /// Reads `access_token` and `session_token`; both may be absent.
    init(in fields: ConfigFields) {
        self.init(access: fields.bearerToken("access_token"), session: fields.bearerToken("session_token"))
    }
}

extension ConfigFields {
    /// `session_lifetime`: authorizers do not say how long a session token lives.
    func sessionLifetime() -> Duration? {
        duration("session_lifetime", in: .seconds(60)...OAuthTokenResponse.longestLifetime)
    }
}

/// Two tokens: one goes upstream, the other, with or without the first, buys the next pair from an authorizer.
///
/// The first pair comes from a person's login, from the configuration or from a store.
struct SessionRefreshGrant: TokenGrant {
    struct Seeds: Hashable {
        let access: Secret?
        let session: Secret?
    }

    let strategy: String
    let clientName: String?
    /// Where the credential stands in the configuration; tells apart credentials that begin without tokens.
    let configPath: String
    let refresh: SessionRequest
    let revoke: SessionRequest?
    let page: SessionLogin?
    let accessPointer: JSONPointer
    let sessionPointer: JSONPointer
    let expiry: ExpiryRule
    /// Where a response states the lifetime of the access token in seconds; nil where it never does.
    let expiryPointer: JSONPointer?
    /// How long a session token lives unless it is used; nil when it is unknown.
    let sessionLifetime: Duration?
    let rotatesRefreshToken: Bool
    let statuses: StatusMap
    let seeds: Seeds

    let isRenewable = true

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: strategy, subject: clientName)
        identity.add("refresh.url", refresh.url.text)
        identity.add("refresh.method", refresh.method.rawValue)
        identity.add("refresh.access_token", refresh.accessField)
        identity.add("refresh.session_token", refresh.sessionField)
        identity.add("response.access_token", accessPointer.text)
        identity.add("response.session_token", sessionPointer.text)
        let lifetime = expiry.lifetime.map { "\($0.wholeMilliseconds)" }
        switch expiry.source {
        case .response: identity.add("expiry", "response \(expiryPointer?.text ?? "")")
        case .fixed: identity.add("expiry", "fixed \(lifetime ?? "")")
        case .jwtExp, .none: identity.add("expiry", expiry.source.rawValue)
        }
        if expiry.source != .fixed { identity.add("lifetime", lifetime) }
        identity.add("rotate", rotatesRefreshToken ? "both" : "access_only")
        identity.add("access_token", secret: seeds.access)
        identity.add("session_token", secret: seeds.session)
        // Without seeds nothing else says whose session it will be.
        if seeds.access == nil, seeds.session == nil { identity.add("credential", configPath) }
        return identity
    }

    var authorityEndpoints: [AuthorityEndpoint] { [AuthorityEndpoint](refresh.url, revoke?.url) }

    /// A session token alone begins as a pair whose access token is over, where that can be renewed.
    func seed(at now: Moment) -> TokenSet? {
        if let access = seeds.access {
            return completing(TokenSet(access: access, refreshToken: seeds.session, obtainedAt: now.wall))
        }
        guard refresh.accessField == nil, let session = seeds.session else { return nil }
        return completing(
            TokenSet(access: Secret(""), refreshToken: session, obtainedAt: now.wall, expiresAt: now.wall)
        )
    }

    /// One that is not spent waits for the first request that needs it.
    var renewsSeed: Bool { seeds.access == nil && rotatesRefreshToken }

    func completing(_ token: TokenSet) -> TokenSet {
        var token = token
        if token.refreshToken != nil, token.refreshTokenExpiresAt == nil {
            token.refreshTokenExpiresAt = sessionLifetime.map { token.obtainedAt + $0 }
        }
        return expiry.completing(token)
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        let token = attempt.held
        let access = token == nil ? seeds.access : token?.access
        let session = token == nil ? seeds.session : token?.refreshToken
        guard let request = refresh.request(access: access, session: session) else {
            return .impossible(loginRequired("There is no pair of tokens to renew from", cause: nil, clears: false))
        }
        return .request(request)
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let now = attempt.now
        // Also with a status that the configuration does not list: what was sent is spent.
        if (200..<300).contains(reply.status), RefreshError(reply) == nil {
            attempt.nextRefreshToken = reply.document.flatMap(session)
        }
        switch statuses.outcome(of: reply.status) {
        case .success:
            let answer = reply.document
            do throws(BrokenAnswer) {
                return .token(try pair(answer, at: now, in: &attempt))
            } catch {
                if let refusal = RefreshError(reply) { return .failure(failure(refusal, reply, in: attempt)) }
                return .failure(error.failure(of: "The authorizer", status: reply.status))
            }
        case .transient: return .failure(transient(reply, at: now))
        case .terminal:
            let what = "The authorizer no longer recognises the tokens (status \(reply.status))"
            return .failure(loginRequired(what, cause: reply.status, clears: true))
        case .unlisted: return .failure(failure(RefreshError(reply) ?? .suspect, reply, in: attempt))
        }
    }

    /// What a status means that the configuration does not list.
    private func failure(_ error: RefreshError, _ reply: TokenReply, in attempt: GrantAttempt) -> TokenFailure {
        let what = "The authorizer refused to renew the tokens (status \(reply.status))"
        switch error {
        case .transient: return transient(reply, at: attempt.now)
        case .suspect: return TokenFailure(suspect: reply, from: "The authorizer")
        case .configuration, .request:
            let check = "check its address and the request."
            let cause = GatewayProblem.Cause(httpStatus: reply.status)
            guard error.mayEndLogin(in: attempt) else {
                let problem = GatewayProblem(.credentialMisconfigured, "\(what): \(check)", cause: cause)
                return TokenFailure(.terminal, problem: problem)
            }
            return .loginLikely(what: what, login: loginAdvice, otherwise: check, cause: cause)
        case .refused, .personNeeded:
            return loginRequired(what, cause: reply.status, clears: false)
        }
    }

    private func transient(_ reply: TokenReply, at now: Moment) -> TokenFailure {
        .transient(authority: "The authorizer", status: reply.status, wait: reply.retryAfter(at: now))
    }

    private func pair(
        _ answer: JSONValue?,
        at now: Moment,
        in attempt: inout GrantAttempt
    ) throws(BrokenAnswer) -> TokenSet {
        let token = attempt.held
        guard let answer else { throw BrokenAnswer(reason: "the body is not JSON") }
        guard let access = accessPointer.value(in: answer)?.string.flatMap({ IssuedToken.read($0) }) else {
            throw BrokenAnswer(reason: "there is no usable token at \(accessPointer.text)")
        }
        let session = session(answer)
        // The access token beside it is good, and asking again would spend the session token once more.
        let isUnusable = session == nil && ![nil, .null, .string("")].contains(sessionPointer.value(in: answer))
        attempt.isRefreshTokenSpent = rotatesRefreshToken && isUnusable
        if attempt.isRefreshTokenSpent {
            attempt.remarks.append("the value at \(sessionPointer.text) cannot be sent as a token; it is ignored")
        }
        var fresh = TokenSet(
            access: access,
            refreshToken: session ?? token?.refreshToken ?? seeds.session,
            obtainedAt: now.wall,
            expiresAt: try expiry.end(
                of: access,
                after: expiryPointer?.value(in: answer),
                from: now.wall,
                isForgiving: true,
                remarks: &attempt.remarks
            )
        )
        if session != nil {
            fresh.refreshTokenExpiresAt = sessionLifetime.map { now.wall + $0 }
        } else if let token, let end = token.refreshTokenExpiresAt {
            fresh.refreshTokenExpiresAt = end
            fresh.refreshTokenObtainedAt = token.refreshTokenObtainedAt ?? token.obtainedAt
        }
        if attempt.isRefreshTokenSpent { fresh.endLoginWithAccess() }
        return fresh
    }

    /// nil when the answer brings none: then the one at hand goes on to be valid.
    private func session(_ answer: JSONValue) -> Secret? {
        guard rotatesRefreshToken else { return nil }
        return sessionPointer.value(in: answer)?.string.flatMap(IssuedToken.read)
    }

    func revocation(in attempt: GrantAttempt) -> RevocationStep {
        let request = attempt.held.flatMap { revoke?.request(access: $0.access, session: $0.refreshToken) }
        return request.map { .request($0) }
            ?? .impossible(
                "The authorizer has no revoke request in the configuration, or there is no session token to send with it."
            )
    }

    /// As the authorizer's own clients do: a logout ends with no token on the device, whatever the authorizer says.
    let keepsTokenUntilRevoked = false

    func injection(of token: TokenSet) -> Injection { .bearer(token.access) }

    var login: (any LoginFlow)? { page }

    private var loginAdvice: String {
        let seeding = "access_token and session_token of \(configPath.isEmpty ? "the credential" : configPath)"
        return page.map { "a person must log in at \($0.loginURL)." }
            ?? "put a new pair into \(seeding), and run: authgateway reload."
    }

    private func loginRequired(_ what: String, cause status: Int?, clears: Bool) -> TokenFailure {
        let cause = status.map { GatewayProblem.Cause(httpStatus: $0) }
        let problem = GatewayProblem(.loginRequired, "\(what): \(loginAdvice)", cause: cause)
        return TokenFailure(.loginRequired, problem: problem, clearsToken: clears)
    }
}

extension SessionRefreshStrategy {
    private static let requestMeanings: [String: KeyMeaning] = [
        "path": KeyMeaning("The path below base_url. {client_name} is filled in.", example: "/portal/session"),
        "method": KeyMeaning("The method.", default: "POST", example: "GET"),
        "access_token": KeyMeaning("Where the request has the access token.", example: "{header: X-Access-Token}"),
        "session_token": KeyMeaning("Where the request has the session token.", example: "{header: X-Session-Token}"),
    ]

    static let meanings = SharedMeanings.of(
        "access_token",
        "session_token",
        "session_lifetime",
        "base_url",
        "client_name"
    ).merging([
        "login": KeyMeaning(
            "The login page, and the path where a login ends.",
            example: "path: /portal/login\ntoken_path: /portal/token"
        ),
        "refresh": KeyMeaning(
            "The request that gets the next pair of tokens.",
            example: "path: /portal/refresh\nsession_token: {header: X-Session-Token}"
        ),
        "revoke": KeyMeaning(
            "The request that ends the session. Its header fields are those of refresh unless they are given.",
            example: "path: /portal/revoke\nmethod: POST"
        ),
        "response": KeyMeaning(
            "Where the response has the tokens, as JSON pointers (RFC 6901).",
            default: "{access_token: /access_token, session_token: /session_token, expires_in: /expires_in}",
            example: "access_token: /data/access_token\nsession_token: /data/session_token"
        ),
        "rotate": KeyMeaning(
            "Whether a renewal replaces the session token as well.",
            default: "both",
            example: "access_only"
        ),
        "status": KeyMeaning(
            "What a status of the authorizer means.",
            default: "{success: [2xx], terminal: [400], transient: [408, 429, 5xx]}",
            example: "success: [200]\nterminal: [400, 410]"
        ),
    ]) { own, _ in own }
}
