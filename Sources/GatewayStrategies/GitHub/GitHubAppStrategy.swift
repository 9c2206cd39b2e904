import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// A token of one installation of a GitHub App. It lives an hour, and the gateway asks for the next one.
struct GitHubAppStrategy: AuthStrategy {
    static let kind = "github_app"
    static let otherNames = ["github"]

    private let grant: GitHubAppGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let app = GitHubApp(in: fields)
        let installation = GitHubInstallation(in: fields)
        let placement = TokenPlacement(in: fields)
        guard let app, let installation, let placement, fields.context.errorCount == errors else { return nil }
        grant = GitHubAppGrant(
            app: app,
            installation: installation,
            placement: placement
        )
    }

    var behavior: AuthBehavior { .token(grant) }
}

extension GitHubAppStrategy {
    static let meanings: [String: KeyMeaning] = SharedMeanings.of("passphrase", "apply").merging([
        "app_id": KeyMeaning("The ID of the app, from its settings.", example: "\"123456\""),
        "client_id": KeyMeaning("The client ID of the app, instead of app_id.", example: "Iv23liabcdef"),
        "private_key": KeyMeaning("A private key of the app, in PEM.", example: "{file: app.private-key.pem}"),
        "installation_id": KeyMeaning(
            "The ID of the installation: the number at the end of the URL of its settings.",
            example: "12345678"
        ),
        "owner": KeyMeaning(
            "The organization or user where the app is installed, instead of installation_id.",
            example: "acme"
        ),
        "repositories": KeyMeaning(
            "The repositories that the token gives access to, without their owner.",
            default: "all of the installation",
            example: "[web, docs]"
        ),
        "permissions": KeyMeaning(
            "What the token may do.",
            default: "all that the installation may",
            example: "contents: read\nissues: write"
        ),
        "api_url": KeyMeaning(
            "The API of a GitHub Enterprise Server.",
            default: "https://api.github.com",
            example: "https://github.example.com/api/v3"
        ),
    ]) { _, own in own }
}

/// An app that is registered with GitHub, and where it asks.
///
/// "Generating a JSON Web Token (JWT) for a GitHub App" and "REST API endpoints for GitHub Apps", docs.github.com.
struct GitHubApp: Sendable {
    private static let publicAPI = "https://api.github.com"

    /// GitHub's clock may be behind ours.
    private static let backdate: Duration = .seconds(-60)
    /// GitHub accepts no token of an app that ends more than ten minutes from now.
    private static let lifetime: Duration = .seconds(540)

    /// The client ID, or the ID of the app.
    let issuer: String
    let signer: JWTSigner
    /// Without a slash at its end.
    let api: String

    /// Reads `app_id` or `client_id`, `private_key` and `api_url`.
    init?(in fields: ConfigFields) {
        let errors = fields.context.errorCount
        let issuers = [fields.string("app_id"), fields.string("client_id")].compactMap(\.self)
        if fields.has("app_id") == fields.has("client_id") {
            fields.error("an app is identified by exactly one of app_id and client_id")
        }
        let signer = fields.privateKey("private_key").flatMap {
            fields.signer($0, at: "private_key", algorithm: .rs256, keyID: nil)
        }
        let api = fields.authorityURL("api_url")?.text ?? Self.publicAPI
        if api.contains("?") { fields.error("api_url", "must not contain a query") }
        guard let issuer = issuers.first, let signer, fields.context.errorCount == errors else { return nil }
        self.issuer = issuer
        self.signer = signer
        self.api = api.hasSuffix("/") ? String(api.dropLast()) : api
    }

    func url(_ path: String) -> AuthorityURL? { try? AuthorityURL(api + path) }

    /// A request in the name of the app.
    func request(
        _ method: TokenRequest.Method,
        _ path: String,
        body: TokenRequest.Body = .none,
        at now: UnixTime
    ) throws(TokenFailure) -> TokenRequest {
        let token = try signer.sign([
            "iss": .string(issuer), "iat": .time(now + Self.backdate), "exp": .time(now + Self.lifetime),
        ])
        return try request(method, path, body: body, with: token)
    }

    /// A request with a token.
    func request(
        _ method: TokenRequest.Method,
        _ path: String,
        body: TokenRequest.Body = .none,
        with token: Secret
    ) throws(TokenFailure) -> TokenRequest {
        guard let url = url(path) else {
            let detail = "The address of GitHub's API cannot be written: check api_url."
            throw TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail))
        }
        let fields = [
            Injection.Field(name: "Accept", value: Secret("application/vnd.github+json")),
            Injection.Field(name: "X-GitHub-Api-Version", value: Secret("2022-11-28")),
        ]
        return TokenRequest(method: method, url: url, fields: Injection.bearer(token).fields + fields, body: body)
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("app", issuer)
        identity.add("api_url", api)
        signer.addInputs(to: &identity)
    }
}

/// Where an app is installed, and what its token may do there.
struct GitHubInstallation: Sendable {
    enum Place: Hashable, Sendable {
        case id(Int)
        /// An organization or a user; the installation is looked up.
        case owner(String)
    }

    let place: Place
    let repositories: [String]
    let permissions: [String: String]

    /// Reads `installation_id` or `owner`, `repositories` and `permissions`.
    init?(in fields: ConfigFields) {
        let errors = fields.context.errorCount
        let id = fields.integer("installation_id", in: 1...(1 << 52))
        let owner = fields.string("owner")
        if fields.has("installation_id") == fields.has("owner") {
            fields.error("an installation is named by exactly one of installation_id and owner")
        }
        if let owner, !Self.isOwner(owner) {
            fields.error("owner", "is not the name of an organization or a user: letters, digits, - and _")
        }
        repositories = fields.strings("repositories") ?? []
        if repositories.contains(where: { $0.contains("/") }) {
            fields.error("repositories", "write the names without the owner")
        }
        if repositories.count > 500 { fields.error("repositories", "GitHub accepts at most 500") }
        let pairs = fields.stringMap("permissions") ?? []
        permissions = Dictionary(pairs.map { ($0.name, $0.value) }) { first, _ in first }
        for (name, value) in pairs where !["read", "write", "admin"].contains(value) {
            fields.error("permissions", "\(name): expected read, write or admin")
        }
        guard let place = id.map(Place.id) ?? owner.map(Place.owner), fields.context.errorCount == errors else {
            return nil
        }
        self.place = place
    }

    private static func isOwner(_ text: String) -> Bool {
        text.utf8.count <= 100
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
                default: false
                }
            }
    }

    /// As people read it.
    var name: String {
        switch place {
        case .id(let id): "installation:\(id)"
        case .owner(let owner): owner
        }
    }

    /// What narrows the token; none where it may do all that the installation may.
    var body: TokenRequest.Body {
        var members: [String: JSONValue] = [:]
        if !repositories.isEmpty { members["repositories"] = .array(repositories.map { .string($0) }) }
        if !permissions.isEmpty { members["permissions"] = .object(permissions.mapValues { .string($0) }) }
        guard !members.isEmpty, let bytes = try? JSONValue.object(members).bytes() else { return .none }
        return .content(type: "application/json", Secret(String(decoding: bytes, as: UTF8.self)))
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("installation", name)
        for (index, repository) in repositories.enumerated() { identity.add("repositories.\(index)", repository) }
        for (name, value) in permissions { identity.add("permissions.\(name)", value) }
    }
}

/// Looks the installation up, unless its id is known, and asks for a token of it.
struct GitHubAppGrant: TokenGrant {
    /// What earlier steps put aside.
    private enum Output {
        static let installation = "installation"
        /// The owner is no organization.
        static let isUser = "is_user"
    }

    private enum Step {
        case organization(String)
        case user(String)
        case token(String)
    }

    let app: GitHubApp
    let installation: GitHubInstallation
    let placement: TokenPlacement

    let isRenewable = true
    let rotatesRefreshToken = false
    let sendsSecrets = false

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: GitHubAppStrategy.kind, subject: installation.name)
        app.addInputs(to: &identity)
        installation.addInputs(to: &identity)
        placement.addInputs(to: &identity)
        return identity
    }

    func seed(at now: Moment) -> TokenSet? { nil }
    func injection(of token: TokenSet) -> Injection { placement.injection(of: token) }

    var authorityEndpoints: [AuthorityEndpoint] {
        let steps: [Step] =
            switch installation.place {
            case .id(let id): [.token(String(id))]
            case .owner(let owner): [.organization(owner), .user(owner), .token("*")]
            }
        return (steps.map(path) + [Self.revocationPath]).compactMap { app.url($0).map { AuthorityEndpoint($0) } }
    }

    // MARK: Steps

    private func step(in attempt: GrantAttempt) -> Step {
        switch installation.place {
        case .id(let id): return .token(String(id))
        case .owner(let owner):
            if let found = attempt.outputs[Output.installation] { return .token(found.withValue { $0 }) }
            return attempt.outputs[Output.isUser] == nil ? .organization(owner) : .user(owner)
        }
    }

    private func path(_ step: Step) -> String {
        switch step {
        case .organization(let name): "/orgs/\(name)/installation"
        case .user(let name): "/users/\(name)/installation"
        case .token(let id): "/app/installations/\(id)/access_tokens"
        }
    }

    private func request(in attempt: GrantAttempt) throws(TokenFailure) -> TokenRequest {
        let step = step(in: attempt)
        let now = attempt.now.wall
        guard case .token = step else { return try app.request(.get, path(step), at: now) }
        return try app.request(.post, path(step), body: installation.body, at: now)
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        GrantStep { () throws(TokenFailure) in try request(in: attempt) }
    }

    private func nextStep(in attempt: GrantAttempt) -> GrantAnswer {
        do throws(TokenFailure) {
            return .next(try request(in: attempt))
        } catch {
            return .failure(error)
        }
    }

    // MARK: Answers

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let step = step(in: attempt)
        guard (200..<300).contains(reply.status) else {
            if case .organization = step, reply.status == 404 {
                attempt.outputs[Output.isUser] = Secret("true")
                return nextStep(in: attempt)
            }
            return AssertionRepair.statement.answer(to: reply, in: attempt, from: "GitHub", sign: firstStep)
                ?? .failure(GitHubRefusal(reply, at: attempt.now).failure(after: advice(for: reply.status, step)))
        }
        do throws(BrokenAnswer) {
            if case .token = step {
                return .token(try token(in: reply, at: attempt.now.wall, remarks: &attempt.remarks))
            }
            attempt.outputs[Output.installation] = Secret(String(try installationID(in: reply)))
            return nextStep(in: attempt)
        } catch {
            return .failure(error.failure(of: "GitHub", status: reply.status))
        }
    }

    private func installationID(in reply: TokenReply) throws(BrokenAnswer) -> Int64 {
        guard case .number(let number)? = reply.document?["id"], let id = number.whole, id > 0 else {
            throw BrokenAnswer(reason: "there is no id of an installation in it")
        }
        return id
    }

    /// GitHub's tokens of installations end after one hour.
    private static let usualLifetime: Duration = .seconds(3600)

    private func token(
        in reply: TokenReply,
        at now: UnixTime,
        remarks: inout [String]
    ) throws(BrokenAnswer) -> TokenSet {
        guard let answer = reply.document else { throw BrokenAnswer(reason: "the body is not JSON") }
        guard let text = answer["token"]?.string, let access = IssuedToken.read(text) else {
            throw BrokenAnswer(reason: "there is no token in it")
        }
        let end = try StatedTimes.end(
            of: access,
            at: answer["expires_at"],
            after: nil,
            usually: Self.usualLifetime,
            from: now,
            isForgiving: true,
            remarks: &remarks
        )
        let token = TokenSet(access: access, obtainedAt: now, expiresAt: end)
        if let obstacle = placement.obstacle(to: token) { throw BrokenAnswer(reason: obstacle) }
        return token
    }

    private func advice(for status: Int, _ step: Step) -> String {
        switch (status, step) {
        case (401, _): "check app_id or client_id, and that private_key is a key of this app."
        case (403, _): "is the installation suspended?"
        case (404, .token): "the app has no such installation; check installation_id."
        case (404, _): "the app is not installed there; check owner."
        case (422, _): "the installation does not have all of repositories and permissions."
        case (300..<400, _): "a redirect is never followed; set api_url to the final address."
        default: "check api_url."
        }
    }

    // MARK: Revocation

    private static let revocationPath = "/installation/token"

    func revocation(in attempt: GrantAttempt) -> RevocationStep {
        guard let token = attempt.held?.access else { return .impossible("There is no token.") }
        do throws(TokenFailure) {
            return .request(try app.request(.delete, Self.revocationPath, with: token))
        } catch {
            return .impossible(error.problem.detail)
        }
    }

    /// GitHub answers 401 to a token that has expired.
    func interpretRevocation(_ reply: TokenReply, in attempt: inout GrantAttempt) -> RevocationAnswer {
        reply.status == 401 ? .revoked : RevocationAnswer(reply)
    }
}

/// An answer of GitHub's API without success.
struct GitHubRefusal {
    private let status: Int
    private let isTransient: Bool
    private let wait: Duration?

    init(_ reply: TokenReply, at now: Moment) {
        status = reply.status
        wait = reply.retryAfter(at: now)
        // A limit on requests is a 403 or a 429 ("Rate limits for the REST API", docs.github.com).
        let isLimit = reply.status == 403 && (wait != nil || reply.field("X-RateLimit-Remaining") == "0")
        isTransient = isLimit || StatusMap.standard.outcome(of: reply.status) == .transient
    }

    func failure(after advice: String) -> TokenFailure {
        guard !isTransient else { return .transient(authority: "GitHub", status: status, wait: wait) }
        let cause = GatewayProblem.Cause(httpStatus: status)
        let detail = "GitHub refused the request for a token (status \(status)): \(advice)"
        return TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail, cause: cause))
    }
}
