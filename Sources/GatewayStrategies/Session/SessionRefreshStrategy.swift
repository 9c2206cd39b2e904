import GatewayCore

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
        defer { login.refuseUnknownKeys() }
        let landing = login.has("token_path") ? paths.url(in: login, "token_path") : paths.url(path: "/token")
        guard let page = paths.url(in: login), let landing else { return nil }
        return (page, landing)
    }

    private static func response(
        in fields: ConfigFields
    ) -> (access: JSONPointer, session: JSONPointer, expiresIn: JSONPointer)? {
        let response = fields.fields("response")
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
