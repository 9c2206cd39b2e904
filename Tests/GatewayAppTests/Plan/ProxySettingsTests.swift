import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import Testing

@testable import GatewayApp
@testable import GatewayProxy
@testable import GatewayTokens

/// `proxy` of `defaults`, of routes and of credentials.
@Suite("Proxies in the configuration", .timeLimit(.minutes(5)))
struct ProxySettingsTests {
    private static let credentials = """
        version: 1
        listeners: {proxy: [{address: "127.0.0.1:8080"}], admin: {address: "127.0.0.1:8081"}}
        credentials:
          company: {strategy: bearer, token: {env: ONE}}
          oauth: {strategy: oauth2_client_credentials, client_id: a, client_secret: {env: ONE}, token_url: "https://id.example.com/t"PROXY}

        """

    private func outcome(_ text: String, credential: String = "") -> ConfigOutcome {
        let text = Self.credentials.replacing("PROXY", with: credential) + text
        let files = MemoryFiles(["/work/gateway.yaml": text])
        let secrets = MemorySecrets(
            variables: [
                "ONE": "canary", "HTTPS_PROXY": "http://me:canary@env.example.com:1", "NO_PROXY": "b.example.com",
            ]
        )
        return ConfigLoader(files: files, environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    private func plan(_ text: String, credential: String = "") throws -> Plan {
        let outcome = outcome(text, credential: credential)
        return try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
    }

    private static let routes = """
        routes:
          a: {upstream: https://a.example.com, auth: oauth}
          b: {upstream: https://b.example.com, auth: company}
          local: {upstream: http://127.0.0.1:9, auth: none}
        """

    @Test func theDefaultHoldsWhereNothingElseIsSaid() throws {
        let plan = try plan(
            "defaults: {proxy: {url: \"http://p.example.com:3128\", no_proxy: [b.example.com]}}\n\(Self.routes)"
        )
        #expect(plan.routes.map { $0.proxy?.description } == ["http://p.example.com:3128", nil, nil])
        let oauth = try #require(plan.credentials.first { $0.name == "oauth" })
        #expect(oauth.proxy?.https?.description == "http://p.example.com:3128")
        #expect(plan.credentials.first { $0.name == "company" }?.proxy == nil)
        #expect(plan.proxy?.sparesLoopback == true)
        let shown = PlanSummary(plan).text()
        #expect(shown.contains("defaults.proxy: http://p.example.com:3128") && !shown.contains("canary"))
    }

    @Test func aRouteAndACredentialHaveTheLastWord() throws {
        let routes = Self.routes.replacing("9, auth", with: "9, proxy: \"http://q:1\", auth")
        let plan = try plan("defaults: {proxy: \"http://p:1\"}\n\(routes)", credential: ", proxy: none")
        #expect(plan.routes.map { $0.proxy?.description } == ["http://p:1", "http://p:1", "http://q:1"])
        #expect(plan.credentials.first { $0.name == "oauth" }?.proxy == nil)
    }

    @Test func theEnvironmentIsAskedOnlyWhereItIsNamed() throws {
        #expect(try plan(Self.routes).routes.allSatisfy { $0.proxy == nil })
        let plan = try plan("defaults: {proxy: environment}\n\(Self.routes)")
        #expect(plan.routes.map { $0.proxy?.description } == ["http://env.example.com:1", nil, nil])
        #expect(plan.routes[0].proxy?.login == ParentProxy.basic(user: "me", password: Secret("canary")))
    }

    @Test func aCredentialCanBeTheLogin() throws {
        let proxy = "{url: \"https://p:1\", auth: company}"
        let text = Self.routes.replacing("com, auth: company", with: "com, proxy: \(proxy), auth: none")
        let plan = try plan(text)
        #expect(plan.routes[1].proxy?.login == Secret("Bearer canary"))
        #expect(plan.routes[1].proxy?.credential == "company")
    }

    /// While it is read, it does not know the server that it will ask.
    @Test(arguments: [("", "http://p:1"), (", proxy: \"http://q:1\"", "http://q:1"), (", proxy: none", nil)])
    func whatIsMadeFromATokenHasItsProxyOrThatOfTheToken(_ own: String, _ expected: String?) throws {
        let weak =
            "  weak: {strategy: oauth2_token_exchange, parent: oauth, token_url: \"https://id.example.com/t\", "
            + "scopes: [a]\(own)}\n"
        let routes = Self.routes + "\n  weak: {upstream: https://c.example.com, auth: weak}"
        let plan = try plan(weak + routes, credential: ", proxy: \"http://p:1\"")
        let made = try #require(plan.credentials.first { $0.name == "weak" })
        #expect(made.proxy?.https?.description == expected)
    }

    @Test func aChangedLoginChangesTheDigest() throws {
        func digest(_ password: String) throws -> PlanDigest {
            let proxy = "{url: \"http://p:1\", username: a, password: \(password)}"
            return PlanDigest(try plan("defaults: {proxy: \(proxy)}\n\(Self.routes)")) { "\($0.hashValue)" }
        }
        let changes = PlanChange.between(try digest("one"), try digest("two")).filter { $0.kind != .kept }
        #expect(changes.map(\.path) == ["defaults.proxy", "routes.a", "routes.b"])
        #expect(changes.allSatisfy { !$0.needsRestart && !"\($0.notes)".contains("two") })
    }

    @Test(arguments: [
        ("\"http://127.0.0.1:8080\"", "is a listener of this gateway"),
        ("\"http://localhost:8080\"", "is a listener of this gateway"),
        ("\"http://0.0.0.0:8080\"", "is a listener of this gateway"),
        ("\"http://[::]:8080\"", "is a listener of this gateway"),
        ("\"http://[::1]:8080\"", "is a listener of this gateway"),
        ("\"http://[::ffff:127.0.0.1]:8080\"", "is a listener of this gateway"),
        ("\"http://127.0.0.2:8080\"", "is a listener of this gateway"),
        ("\"http://a.localhost:8080\"", "is a listener of this gateway"),
        ("\"http://127.1:8080\"", "is a listener of this gateway"),
        ("\"http://0x7f000001:8080\"", "is a listener of this gateway"),
        ("\"http://2130706433:8080\"", "is a listener of this gateway"),
        ("\"http://me:canary@p:1\"", "use \"username\" and \"password\""),
        ("\"socks5://p:1\"", "SOCKS is not supported"),
        ("p", "expected the URL of a proxy"), ("{username: a}", "username and password belong together"),
        ("{url: \"http://p:1\", auth: oauth}", "cannot be sent to a proxy"),
        ("{url: \"http://p:1\", auth: other}", "other"),
        ("{url: \"http://p:1\", auth: company, username: a, password: {env: ONE}}", "not both"),
        ("{url: \"http://p:1\", username: \"a:b\", password: {env: ONE}}", "must not contain a colon"),
        ("{url: \"http://p:1\", ca: x.pem}", "has no effect: the proxy is http"),
        ("{url: \"http://p:1\", no_proxy: [\"10.0.0.1/8\"]}", "expected a host such as example.com"),
        ("{url: \"http://p:1\", proxy: a}", "unknown key \"proxy\""),
    ])
    func mistakesAreNamed(proxy: String, words: String) {
        let report = outcome("defaults: {proxy: \(proxy)}\n\(Self.routes)").report(consequence: "refused")
        #expect(report.contains(words), "\(report)")
        #expect(!report.contains("canary"))
    }

    @Test func whatHasNoUseIsRefused() {
        let text = Self.routes.replacing(
            "auth: company",
            with: "auth: {strategy: bearer, token: {env: ONE}, proxy: \"http://p:1\"}"
        )
        let report = outcome(text).report(consequence: "refused")
        #expect(report.contains("bearer sends no requests of its own"), "\(report)")
        #expect(outcome("defaults: {}\n\(Self.routes)").plan == nil)
    }
}
