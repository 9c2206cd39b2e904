import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Duke University's mobile authorizer, as its public clients of 2019 and 2022 speak to it.
struct DukeSessionStrategy: AuthStrategy {
    static let kind = "duke_session"
    static let hasSessions = true

    private let grant: SessionRefreshGrant

    init?(from fields: ConfigFields) {
        fields.explain(SharedMeanings.of("access_token", "session_token", "session_lifetime", "client_name"))
        let errors = fields.context.errorCount
        var server = Self.keys.defaults
        Self.keys.read(fields, into: &server)
        let style = server.style
        let clientName = SessionPaths.clientName(in: fields, isRequired: true)
        let base = Self.base(in: fields, of: server)
        let sessionLifetime = fields.sessionLifetime()
        let seeds = SessionRefreshGrant.Seeds(in: fields)
        guard let clientName, let base, let accessPointer = JSONPointer("/data/access_token"),
            let sessionPointer = JSONPointer("/data/session_token"), fields.context.errorCount == errors
        else { return nil }

        let paths = SessionPaths(base: base, clientName: clientName)
        let prefix = style == .library2019 ? "/\(clientName)/ios" : "/\(clientName)"
        guard let refresh = Self.request("\(prefix)/refresh", paths) else { return nil }
        grant = SessionRefreshGrant(
            strategy: Self.kind,
            clientName: clientName,
            configPath: fields.path.description,
            refresh: refresh,
            // The client of 2022 only forgets its tokens.
            revoke: style == .library2019 ? Self.request("\(prefix)/revoke", paths) : nil,
            page: Self.login(prefix, clientName, paths, sessionLifetime),
            accessPointer: accessPointer,
            sessionPointer: sessionPointer,
            expiry: ExpiryRule(source: .jwtExp),
            expiryPointer: nil,
            sessionLifetime: sessionLifetime,
            rotatesRefreshToken: true,
            statuses: .standard,
            seeds: seeds
        )
    }

    var behavior: AuthBehavior { .token(grant) }

    private enum Environment: String, CaseIterable {
        case release
        case debug
    }

    private enum PathStyle: String, CaseIterable {
        case library2019 = "2019"
        case app2022 = "2022"
    }

    private struct Server {
        var environment = Environment.release
        var style = PathStyle.library2019
    }

    private static let keys = Keys(Server()) {
        $0("environment", \.environment, .choice, example: "debug")
            .means("Which authorizer is used.")
        $0("path_style", \.style, .choice, example: "2022")
            .means("The shape of its paths: /NAME/ios/refresh (2019) or /NAME/refresh (2022).")
        $0("base_url", example: "https://auth.example")
            .means("Replaces the URL of the authorizer, for a sandbox.")
    }

    private static func request(_ path: String, _ paths: SessionPaths) -> SessionRequest? {
        paths.url(path: path).map {
            SessionRequest(method: .post, url: $0, accessField: "X-Access-Token", sessionField: "X-Session-Token")
        }
    }

    /// Both shapes of the last address are known from the field, whichever paths a client used before it.
    private static func login(
        _ prefix: String,
        _ clientName: String,
        _ paths: SessionPaths,
        _ lifetime: Duration?
    ) -> SessionLogin? {
        let landings = ["\(prefix)/token", "/\(clientName)/token", "/\(clientName)/ios/token"]
        return paths.url(path: "\(prefix)/login").map {
            SessionLogin(
                loginURL: $0,
                landings: landings.compactMap { paths.url(path: $0) },
                expiry: ExpiryRule(source: .jwtExp),
                sessionLifetime: lifetime
            )
        }
    }

    private static func base(in fields: ConfigFields, of server: Server) -> AuthorityURL? {
        if fields.has("base_url") { return SessionPaths.base(in: fields) }
        switch (server.environment, server.style) {
        case (.release, .library2019): return try? AuthorityURL("https://mobile-authorizer.api.oit.duke.edu/")
        case (.release, .app2022): return try? AuthorityURL("https://mobile-authorizer.oit.duke.edu/")
        case (.debug, .library2019): return try? AuthorityURL("https://mobile-authorizer-test.oit.duke.edu/")
        case (.debug, .app2022):
            fields.error("environment", "no debug authorizer is known for path_style 2022; set base_url")
            return nil
        }
    }
}
