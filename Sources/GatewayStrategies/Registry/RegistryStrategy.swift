import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// A registry of container images that asks for a token of its token server (token authentication of the distribution project):
/// Docker Hub, ghcr, Quay, GitLab and most others.
struct RegistryStrategy: AuthStrategy {
    static let kind = "registry"

    private let grants: RegistryGrants

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let hosts = Self.realmHosts(in: fields)
        let account = Self.account(in: fields)
        guard fields.context.errorCount == errors else { return nil }
        grants = RegistryGrants(account: account, realmHosts: hosts)
    }

    var behavior: AuthBehavior { .tokens(grants) }

    private static func realmHosts(in fields: ConfigFields) -> [String] {
        guard fields.has("realm_hosts") else {
            fields.missing("realm_hosts")
            return []
        }
        let hosts = fields.strings("realm_hosts") ?? []
        if hosts.isEmpty, fields.node("realm_hosts") != nil { fields.error("realm_hosts", "names no host") }
        for host in hosts where Origin(scheme: .https, authority: host) == nil {
            fields.error("realm_hosts", "expected hosts such as auth.docker.io or auth.example.com:8443")
            break
        }
        return hosts.map { $0.lowercased() }
    }

    /// nil for tokens of everybody, and after a mistake.
    private static func account(in fields: ConfigFields) -> UserAccount? {
        let given = ["username", "password"].filter(fields.has)
        guard given.count == 1 else { return given.isEmpty ? nil : UserAccount(in: fields) }
        fields.error("username and password belong together; one of them is missing")
        return nil
    }
}

/// The tokens of a registry, each named by the URL that gives it.
struct RegistryGrants: TokenGrants, ChallengeRule {
    private let account: UserAccount?
    private let realmHosts: [String]
    private let rule: RegistryRule

    init(account: UserAccount?, realmHosts: [String]) {
        self.account = account
        self.realmHosts = realmHosts
        rule = RegistryRule(realmHosts: realmHosts)
    }

    var naming: TokenNaming { .challenge(self) }
    let keyName = "scope"
    let limit = 256
    let limitKey: String? = nil
    let isRenewable = true
    let storesTokens = false

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: RegistryStrategy.kind, subject: account?.username)
        identity.add("username", account?.username)
        identity.add("password", secret: account?.password)
        identity.add("realm_hosts", realmHosts.joined(separator: " "))
        return identity
    }

    func requestKey(method: String, path: String) -> String { RegistryRule.repositoryUse(method: method, path: path) }

    func tokenKey(answering challenges: [AuthChallenge]) -> String? { rule.tokenURL(answering: challenges) }

    func refusal(of url: String, credential: String) -> GatewayProblem? {
        guard rule.address(of: url) == nil else { return nil }
        let detail = "This is not the address of a token server that \(credential) may use (realm_hosts)."
        return GatewayProblem(.subjectRequired, detail)
    }

    func grant(for url: String) -> any TokenGrant {
        RegistryGrant(common: identity, account: account, url: rule.address(of: url))
    }
}

extension RegistryStrategy {
    static let meanings: [String: KeyMeaning] = [
        "realm_hosts": KeyMeaning(
            "The token servers that may get the password: host, or host:port. A challenge that names another is passed on.",
            example: "[auth.docker.io]"
        ),
        "username": KeyMeaning("The user name. Without it, tokens are for public images.", example: "me"),
        "password": KeyMeaning("The password, or an access token.", example: "{env: REGISTRY_PASSWORD}"),
    ]
}

/// One token of a registry's token server.
struct RegistryGrant: BearerGrant {
    /// The lifetime of a token whose expiry is not given: what the specification says then.
    private static let defaultLifetime: Duration = .seconds(60)

    let common: GrantIdentity
    let account: UserAccount?
    /// nil for a text that is no URL of a token server.
    let url: AuthorityURL?

    /// A client of a registry asks for many tokens, and uses each for minutes.
    var renewsAhead: Bool { false }
    var sendsSecrets: Bool { account != nil }

    var identity: GrantIdentity {
        var identity = common
        identity.add("url", url?.text)
        return identity
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        guard let url else {
            let problem = GatewayProblem(
                .credentialMisconfigured,
                "This is not the address of a token server in realm_hosts."
            )
            return .impossible(TokenFailure(.terminal, problem: problem))
        }
        return .request(TokenRequest(method: .get, url: url, fields: account?.basic.fields ?? []))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        if let error = RefreshError(reply) { return .failure(failure(error, reply, at: attempt.now)) }
        do throws(BrokenAnswer) {
            let answer = Self.tokenResponse(reply.document)
            var token = try OAuthTokenResponse(answer, at: attempt.now.wall).tokenSet(at: attempt.now)
            token.expiresAt = token.expiresAt ?? attempt.now.wall + Self.defaultLifetime
            return .token(token)
        } catch {
            return .failure(error.failure(of: Self.authority, status: reply.status))
        }
    }

    private static let authority = "The registry's token server"

    /// The token is `token`, or `access_token` as in OAuth; servers that know both send the same twice.
    private static func tokenResponse(_ answer: JSONValue?) -> JSONValue? {
        guard case .object(var members)? = answer, let token = members["token"]?.string, !token.isEmpty else {
            return answer
        }
        members["access_token"] = .string(token)
        return .object(members)
    }

    private func failure(_ error: RefreshError, _ reply: TokenReply, at now: Moment) -> TokenFailure {
        let cause = GatewayProblem.Cause(httpStatus: reply.status)
        guard error != .transient else {
            return .transient(authority: Self.authority, status: reply.status, wait: reply.retryAfter(at: now))
        }
        let advice =
            switch reply.status {
            case 401, 403: account == nil ? "it requires username and password." : "check username and password."
            case 300..<400: "it answered with a redirect, which is never followed."
            default: "check realm_hosts and the repository."
            }
        let detail = "\(Self.authority) refused the token request (status \(reply.status)): \(advice)"
        // Accounts are locked after too many wrong passwords.
        return TokenFailure(
            .terminal,
            problem: GatewayProblem(.credentialMisconfigured, detail, cause: cause),
            isRetried: account == nil || reply.status != 401
        )
    }
}
