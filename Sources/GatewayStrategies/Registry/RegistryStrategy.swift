import GatewayCore

/// A registry of container images that asks for a token of its token server (token authentication of the distribution project):
/// Docker Hub, ghcr, Quay, GitLab and most others.
struct RegistryStrategy: AuthStrategy {
    static let kind = "registry"

    private let grants: RegistryGrants

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let hosts = Self.realmHosts(in: fields)
        let account = RegistryAccount(in: fields)
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
}

/// Whose token it is; nil for everybody's.
struct RegistryAccount: Hashable {
    let username: String
    let password: Secret

    init?(in fields: ConfigFields) {
        let given = ["username", "password"].filter(fields.has)
        guard given.count == 2 else {
            if !given.isEmpty { fields.error("username and password belong together; one of them is missing") }
            return nil
        }
        let username = fields.basicUsername("username", isRequired: true)
        let password = fields.requiredSecret("password")
        guard let username, let password else { return nil }
        self.username = username
        self.password = password
    }

    var fields: [Injection.Field] { Injection.basic(username: username, password: password).fields }
}

/// The tokens of a registry, each named by the URL that gives it.
struct RegistryGrants: TokenGrants, ChallengeRule {
    private let account: RegistryAccount?
    private let realmHosts: [String]
    private let rule: RegistryRule

    init(account: RegistryAccount?, realmHosts: [String]) {
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
        let detail = "This is no address of a token server that \(credential) may ask (realm_hosts)."
        return GatewayProblem(.subjectRequired, detail)
    }

    func grant(for url: String) -> any TokenGrant {
        RegistryGrant(common: identity, account: account, url: rule.address(of: url))
    }
}
