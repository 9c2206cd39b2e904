import GatewayCore

/// Duke University's mobile authorizer, as its public clients of 2019 and 2022 speak to it.
struct DukeSessionStrategy: AuthStrategy {
    static let kind = "duke_session"
    static let hasSessions = true

    private let grant: SessionRefreshGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let environment = fields.choice("environment", of: Environment.self) ?? .release
        let style = fields.choice("path_style", of: PathStyle.self) ?? .library2019
        let clientName = SessionPaths.clientName(in: fields, isRequired: true)
        let base = Self.base(in: fields, environment: environment, style: style)
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

    private static func base(in fields: ConfigFields, environment: Environment, style: PathStyle) -> AuthorityURL? {
        if fields.has("base_url") { return SessionPaths.base(in: fields) }
        switch (environment, style) {
        case (.release, .library2019): return try? AuthorityURL("https://mobile-authorizer.api.oit.duke.edu/")
        case (.release, .app2022): return try? AuthorityURL("https://mobile-authorizer.oit.duke.edu/")
        case (.debug, .library2019): return try? AuthorityURL("https://mobile-authorizer-test.oit.duke.edu/")
        case (.debug, .app2022):
            fields.error("environment", "no debug authorizer is known for path_style 2022; set base_url")
            return nil
        }
    }
}

extension DukeSessionStrategy {
    static let meanings = SharedMeanings.of("access_token", "session_token", "session_lifetime", "client_name")
        .merging([
            "environment": KeyMeaning("Which authorizer is used.", default: "release", example: "debug"),
            "path_style": KeyMeaning(
                "The shape of its paths: /NAME/ios/refresh (2019) or /NAME/refresh (2022).",
                default: "2019",
                example: "2022"
            ),
            "base_url": KeyMeaning("Replaces the authorizer, for a sandbox.", example: "https://auth.example"),
        ]) { own, _ in own }
}
