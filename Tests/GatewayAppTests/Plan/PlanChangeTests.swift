import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import Testing

@testable import GatewayApp
@testable import GatewayProxy
@testable import GatewayTokens

@Suite("Changes of a plan", .timeLimit(.minutes(5)))
struct PlanChangeTests {
    private static let before = """
        version: 1
        workers: 2
        access: {clients: {laptop: {token: {env: ONE}}, ci: {token: {env: TWO}}}}
        credentials:
          key: {strategy: bearer, token: {env: ONE}}
          other: {strategy: bearer, token: {env: ONE}}
        routes:
          a: {upstream: https://a.example.com, auth: key}
          b: {upstream: https://b.example.com, auth: other}
        """

    private func plan(_ text: String, secret: String = "secret-1") throws -> Plan {
        let files = MemoryFiles(["/work/gateway.yaml": text])
        let secrets = MemorySecrets(variables: ["ONE": secret, "TWO": "secret-2"])
        let outcome = ConfigLoader(files: files, environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
        return try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
    }

    private func digest(_ plan: Plan) -> PlanDigest { PlanDigest(plan, mark: Self.mark) }

    private static func mark(_ bytes: [UInt8]) -> String {
        String(
            bytes.reduce(into: UInt64(14_695_981_039_346_656_037)) { hash, byte in
                hash = (hash ^ UInt64(byte)) &* 1_099_511_628_211
            }
        )
    }

    /// Two plans are compared in one process, or by their digests in two. Both say the same.
    private func between(_ old: Plan, _ new: Plan) -> [PlanChange] {
        let changes = PlanChange.between(digest(old), digest(new))
        #expect(PlanChange.between(old, new, mark: Self.mark) == changes)
        return changes
    }

    private func between(_ old: String, _ new: String, secret: String = "secret-1") throws -> [PlanChange] {
        between(try plan(old), try plan(new, secret: secret))
    }

    /// What differs, as `path kind`, without what is kept.
    private func changes(_ edit: (from: String, to: String)...) throws -> [PlanChange] {
        var after = Self.before
        for (from, to) in edit {
            #expect(after.contains(from))
            after = after.replacing(from, with: to)
        }
        return PlanChange.effective(try between(Self.before, after))
    }

    private func lines(_ changes: [PlanChange]) -> [String] {
        changes.map { "\($0.path) \($0.kind.rawValue)\($0.needsRestart ? ", restart" : "")" }
    }

    @Test func nothingChangesWithoutAChange() throws {
        let all = try between(Self.before, Self.before)
        #expect(!all.isEmpty && all.allSatisfy { $0.kind == .kept && $0.notes.isEmpty && !$0.needsRestart })
        #expect(PlanChange.text(all) == "Nothing changes.\n")
    }

    @Test func whereTheTextIsPutDoesNotMatter() throws {
        #expect(try changes(("routes:", "# a remark\n\nroutes:")).isEmpty)
    }

    /// It is dialled by another name then.
    @Test func theDotOfTheRootIsAChange() throws {
        let found = try changes(("https://a.example.com", "https://a.example.com."))
        #expect(lines(found) == ["routes.a changed"])
    }

    @Test func routesAreAddedChangedAndDropped() throws {
        let found = try changes(
            ("https://a.example.com", "https://c.example.com"),
            (
                "  b: {upstream: https://b.example.com, auth: other}",
                "  d: {upstream: https://b.example.com, auth: other}"
            )
        )
        #expect(
            lines(found) == ["credentials.other changed", "routes.a changed", "routes.d added", "routes.b dropped"]
        )
        #expect(found[0].notes == ["used by: b -> d"])
        #expect(found[1].notes == ["upstream: https://a.example.com -> https://c.example.com"])
        let text = PlanChange.text(try between(Self.before, Self.before) + found)
        #expect(text.contains("~ routes.a changed\n    upstream: https://a.example.com -> https://c.example.com\n"))
        #expect(text.contains("+ routes.d added\n- routes.b dropped\n"))
        #expect(text.hasSuffix("Kept: 2 of the routes and 2 of the credentials.\n"))
    }

    @Test func anotherSecretIsAChangeThatIsNotShown() throws {
        let found = try changes(
            ("other: {strategy: bearer, token: {env: ONE}}", "other: {strategy: bearer, token: {env: TWO}}")
        )
        #expect(lines(found) == ["credentials.other changed"])
        #expect(found.flatMap(\.notes) == ["a setting whose value is not shown, such as a secret or a URL"])
    }

    @Test func anotherRegionIsShown() throws {
        let key = "other: {strategy: bearer, token: {env: ONE}}"
        let keys = "other: {strategy: aws_sigv4, access_key_id: AKIDEXAMPLE, secret_access_key: {env: ONE}"
        let old = Self.before.replacing(key, with: "\(keys), region: eu-west-1, service: s3}")
        let new = Self.before.replacing(key, with: "\(keys), region: [eu-west-1, eu-central-1]}")
        #expect(
            PlanChange.effective(try between(old, new)).flatMap(\.notes) == [
                "region: eu-west-1 -> eu-west-1, eu-central-1", "service: s3 -> nothing",
            ]
        )
    }

    @Test func anotherCertificateAuthorityIsShown() throws {
        let old = try plan(Self.before)
        var new = old
        new.routes[0].tls.caPath = "/ca.pem"
        #expect(PlanChange.effective(between(old, new)).flatMap(\.notes) == ["tls.ca: nothing -> /ca.pem"])
    }

    @Test func theSameReferenceWithAnotherValueIsAChange() throws {
        let found = PlanChange.effective(try between(Self.before, Self.before, secret: "rotated"))
        let paths = ["access.clients.laptop", "credentials.key", "credentials.other"]
        #expect(lines(found) == paths.map { "\($0) changed" })
        #expect(!"\(found)".contains("rotated") && !"\(found)".contains("secret-1"))
    }

    /// What a credential shows beside its definition.
    @Test(
        arguments: [
            (#"{upstream: https://b.example.com, auth: other}"#, #"{upstream: https://b.example.com, auth: key}"#),
            ("access: {", "limits: {connections: 5}\naccess: {"), ("  a: {upstream", "  z: {upstream"),
            ("b: {upstream: https://b.example.com, auth: other}", "b: {upstream: https://b.example.com, auth: none}"),
            (
                "  a: {upstream: https://a.example.com, auth: key}",
                "  a: {upstream: http://127.0.0.1:1, auth: key, via: false}"
            ),
        ]
    )
    func anythingElseIsAChangeToo(_ from: String, _ to: String) throws { #expect(try !changes((from, to)).isEmpty) }

    @Test func whatIsMadeForAnotherSubjectIsAChange() throws {
        let text = """
            version: 1
            access: {clients: {laptop: {token: {env: ONE}}}}
            credentials:
              box: {strategy: box_ccg, client_id: a, client_secret: {env: ONE}, subject: {enterprise: "1"}}
            routes:
              a: {upstream: https://a.example.com, auth: box}
              b: {upstream: https://b.example.com, auth: {credential: box, subject: {user: "42"}}}
            """
        let other = text.replacing(#"user: "42""#, with: #"user: "43""#)
        let found = PlanChange.effective(try between(text, other))
        #expect(
            lines(found) == [
                "credentials.box[user:43] added", "credentials.box[user:42] dropped", "routes.b changed",
            ]
        )
        #expect(found.last?.notes == ["credential: box[user:42] -> box[user:43]"])
        let later = text.replacing("client_id: a", with: "client_id: b")
        #expect(
            lines(PlanChange.effective(try between(text, later))) == [
                "credentials.box changed", "credentials.box[user:42] changed",
            ]
        )
    }

    @Test func aClientIsDropped() throws {
        #expect(try lines(changes((", ci: {token: {env: TWO}}", ""))) == ["access.clients.ci dropped"])
    }

    @Test(
        "what is decided at the start needs a restart",
        arguments: [
            ("workers: 2", "workers: 3", ["workers changed, restart"]),
            (
                "workers: 2", "state_directory: /other",
                [
                    "state_directory changed, restart", "workers changed, restart", "audit.path changed, restart",
                    "tokens.key changed, restart", "tokens.path changed, restart",
                ]
            ),
            ("workers: 2", "workers: 2\ntokens: {key: {env: ONE}}", ["tokens.key changed, restart"]),
            (
                "workers: 2", "workers: 2\ntokens: {encryption_key: {env: ONE}}",
                ["tokens.encryption_key added, restart"]
            ),
            ("workers: 2", "workers: 2\nlimits: {drain: 5s}", ["limits.drain changed, restart"]),
            ("workers: 2", "workers: 2\nlimits: {connections: 5}", ["limits.connections changed"]),
        ]
    )
    func whatNeedsARestart(_ from: String, _ to: String, _ expected: [String]) throws {
        #expect(try lines(changes((from, to))) == expected)
    }

    // MARK: What a digest is made of

    /// One change for each stored property of a route. A property that is added needs a line here, and a key that covers it in `RoutePlan.keys`.
    private static let routeChanges: [String: @Sendable (inout RoutePlan) -> Void] = [
        "name": { $0.name = "c" },
        "upstream": { $0.upstream = Origin(scheme: .http, host: "a.example.com", port: 443) },
        "upstreamPath": { $0.upstreamPath = "/v2" },
        "matchPath": { $0.matchPath = "/b" },
        "matchHosts": { $0.matchHosts = ["one.example.com"] },
        "matchesAll": { $0.matchesAll.toggle() },
        "matchesUpstreamHost": { $0.matchesUpstreamHost.toggle() },
        "upstreamMatchPath": { $0.upstreamMatchPath = "/v2" },
        "isDefault": { $0.isDefault.toggle() },
        "asUser": { $0.asUser = ActingUser(id: "", field: UserField(name: "As-User", advice: "")) },
        "headers": { $0.headers.set = [Injection.Field(name: "X-A", value: Secret("1"))] },
        "cookies": { $0.cookies = .pass },
        "rewritesLinks": { $0.rewritesLinks = false },
        "allowsConnectionAuth": { $0.allowsConnectionAuth.toggle() },
        "allow": { $0.allow = [RoutePlan.Allow(methods: [], path: .all)] },
        "endpoints": { $0.endpoints.removeAll() },
        "clients": { $0.clients = [] },
        "authz": { $0.authz = ["envoy"] },
        "allowedOrigins": { $0.allowedOrigins = [] },
        "tls": { $0.tls.serverName = "one.example.com" },
        "upstreamProtocol": { $0.upstreamProtocol = .auto },
        "timeouts": { $0.timeouts.idle = .seconds(1) },
        "proxy": { $0.proxy = try? ParentProxy("http://proxy.example.com:3128") },
        "whoami": { $0.whoami = WhoAmI(path: "/me") },
        "sendsVia": { $0.sendsVia.toggle() },
    ]

    private static let tlsChanges: [String: @Sendable (inout RoutePlan.TLS) -> Void] = [
        "caPath": { $0.caPath = "/ca.pem" },
        "serverName": { $0.serverName = "one.example.com" },
        "certificatePath": { $0.certificatePath = "/own.pem" },
        "privateKey": { $0.privateKey = Secret("key") },
        "pins": { $0.pins = [CertificatePin(digest: [1])] },
    ]

    private static let policyChanges: [String: @Sendable (inout RenewalPolicy) -> Void] = [
        "isAutomatic": { $0.isAutomatic.toggle() },
        "aheadPercent": { $0.aheadPercent += 1 },
        "atLeast": { $0.atLeast += .milliseconds(1) },
        "retryOn": { $0.retryOn.append(403) },
        "rejectedWhen": { $0.rejectedWhen = RejectionRule(statuses: [302]) },
        "onAuthorityFailure": { $0.onAuthorityFailure = .fail },
        "acquireOn": { $0.acquireOn = .startup },
    ]

    private static func properties(_ value: Any) -> Set<String> {
        Set(Mirror(reflecting: value).children.compactMap(\.label))
    }

    /// The token URL has the origin of the upstream, so the route guards it.
    private static let guarding = before.replacing(
        "key: {strategy: bearer, token: {env: ONE}}",
        with: "key: {strategy: oauth2_client_credentials, token_url: https://a.example.com/token, client_id: x, "
            + "client_secret: {env: ONE}}"
    )

    @Test func eachPropertyOfARouteAndOfItsRenewalIsInTheDigest() throws {
        let plan = try plan(Self.guarding)
        let route = plan.routes[0]
        // The credential has a digest of its own, and the span is the place in the file.
        #expect(Self.properties(route).subtracting(Self.routeChanges.keys) == ["credential", "span"])
        #expect(Self.properties(route.tls) == Set(Self.tlsChanges.keys))
        #expect(Self.properties(plan.credentials[0].policy) == Set(Self.policyChanges.keys))
        let marks = Set(digest(plan).marks.values)
        func expectAnotherMark(_ property: String, _ change: (inout Plan) -> Void) {
            var other = plan
            change(&other)
            #expect(Set(digest(other).marks.values).subtracting(marks).count == 1, "\(property)")
            #expect(!PlanChange.effective(between(plan, other)).isEmpty, "\(property)")
        }
        for (property, change) in Self.routeChanges { expectAnotherMark(property) { change(&$0.routes[0]) } }
        for (property, change) in Self.tlsChanges { expectAnotherMark(property) { change(&$0.routes[0].tls) } }
        for (property, change) in Self.policyChanges {
            expectAnotherMark(property) { change(&$0.credentials[0].policy) }
        }
        expectAnotherMark("headers.forwarded") { $0.routes[0].headers.forwarded = .pass }
        expectAnotherMark("headers.remove") { $0.routes[0].headers.remove = ["x-a"] }
    }

    /// Swift prints a private type with its place in memory. `acceptance/operate/test_reload.py` compares digests of two processes.
    @Test func noDigestIsMadeOfWhatSwiftPrints() throws {
        let plan = try plan(Self.guarding)
        #expect(!plan.routes[0].endpoints.isEmpty)
        let printed = PlanDigest(plan) { String(decoding: $0, as: UTF8.self) }.marks
            .filter {
                $0.value.contains("unknown context") || $0.value.contains(/Gateway[A-Z][a-z]\w*\./)
                    || $0.value.contains("(")
            }
        #expect(printed.isEmpty)
    }
}
