import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayStrategies
import Testing

@testable import GatewayApp
@testable import GatewayProxy
@testable import GatewayTokens

/// Every property of a plan is compared before a reload, also those that the plan does not show.
@Suite("What a comparison of two plans covers", .timeLimit(.minutes(5)))
struct PlanComparisonTests {
    private typealias Changes<Block> = [String: @Sendable (inout Block) -> Void]

    private static let text = """
        version: 1
        state_directory: /state
        listeners:
          proxy: [{address: 127.0.0.1:8080, intercept: true}]
          authz: [{address: 127.0.0.1:8191, engine: edge, contract: envoy, token: {env: LONG}}]
          admin:
            address: 127.0.0.1:8081
            tls: {certificate: cert.pem, private_key: {env: LONG}}
            users: {alice: {role: viewer, token: {env: USER}}}
        access: {clients: {laptop: {token: {env: CLIENT}}}}
        audit: {anchor: {command: [keep], read: [kept]}}
        tokens:
          store: postgres
          url: postgresql://gateway@db.example/tokens
          key: {env: LONG}
          encryption_key: {env: OTHER}
        telemetry: {otlp: https://otlp.example.com/in, headers: {X-Key: {env: LONG}}}
        routes: {a: {upstream: https://a.example.com, auth: none}}
        """

    private static let secrets = MemorySecrets(variables: [
        "LONG": "canary-secret-1-canary-secret-1", "OTHER": "canary-secret-2-canary-secret-2",
        "USER": "canary-secret-5-canary-secret-5", "CLIENT": "canary-secret-6-canary-secret-6",
        "URL": "postgresql://gateway:canary-secret-3@db.example/tokens",
        "OTHER_URL": "postgresql://gateway:canary-secret-4@db.example/tokens",
    ])

    private func plan(_ text: String = text) throws -> Plan {
        let secrets = Self.secrets
        let outcome = ConfigLoader(
            files: MemoryFiles(["/work/gateway.yaml": text]),
            environment: { secrets.environment($0) }
        )
        .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
        return try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
    }

    private func digest(_ plan: Plan) -> PlanDigest {
        PlanDigest(plan) { bytes in
            String(
                bytes.reduce(into: UInt64(14_695_981_039_346_656_037)) { hash, byte in
                    hash = (hash ^ UInt64(byte)) &* 1_099_511_628_211
                }
            )
        }
    }

    private func changes(from old: Plan, to new: Plan) -> [PlanChange] {
        PlanChange.effective(PlanChange.between(digest(old), digest(new)))
    }

    private func lines(_ changes: [PlanChange]) -> [String] {
        changes.map { "\($0.path) \($0.kind.rawValue)\($0.needsRestart ? ", restart" : "")" }
    }

    // MARK: Keys of tokens and audit

    private func section(_ section: String) -> String {
        "version: 1\nstate_directory: /state\n\(section)\nroutes: {a: {upstream: https://a.example.com, auth: none}}\n"
    }

    private static let hidden: [(before: String, from: String, to: String, expected: String)] = [
        (
            "tokens: {store: postgres, url: \"postgresql://gateway@db.example/tokens\", password: {env: LONG}}",
            "password: {env: LONG}", "password: {env: OTHER}", "tokens.password changed, restart"
        ),
        (
            "tokens: {store: postgres, url: \"postgresql://gateway@db.example/tokens\", password: {env: LONG}}",
            ", password: {env: LONG}", "", "tokens.password dropped, restart"
        ),
        (
            "tokens: {store: postgres, url: {env: URL}}", "env: URL", "env: OTHER_URL",
            "tokens.url changed, restart"
        ),
        (
            "tokens: {store: postgres, url: \"postgresql://gateway@db.example/tokens\"}", "gateway@", "other@",
            "tokens.url changed, restart"
        ),
        (
            "tokens: {store: postgres, url: \"postgresql://gateway@db.example/tokens?application_name=five\"}",
            "=five", "=six", "tokens.url changed, restart"
        ),
        (
            "tokens: {store: postgres, url: \"postgresql://gateway@db.example/tokens\", "
                + "listen_url: \"postgresql://gateway@db.example/tokens\"}",
            "listen_url: \"postgresql://gateway@", "listen_url: \"postgresql://other@",
            "tokens.listen_url changed, restart"
        ),
        (
            "tokens: {store: command, command: [keep, a b]}", "a b", "a, b", "tokens.command changed, restart"
        ),
        (
            "tokens: {store: command, command: [keep], environment: {A: {env: LONG}}}", "LONG", "OTHER",
            "tokens.environment changed, restart"
        ),
        (
            "tokens: {store: command, command: [keep]}", "[keep]", "[keep], environment: {A: \"1\"}",
            "tokens.environment added, restart"
        ),
        (
            "tokens: {store: command, command: [keep]}", "[keep]", "[keep], timeout: 5s",
            "tokens.timeout changed, restart"
        ),
        (
            "audit: {anchor: {command: [keep], read: [kept]}}", "[kept]", "[kept, all]",
            "audit.anchor changed, restart"
        ),
        (
            "audit: {anchor: {command: [keep]}}", "[keep]", "[keep], timeout: 10s", "audit.anchor changed, restart"
        ),
        (
            "telemetry: {otlp: https://otlp.example.com, headers: {X-Key: {env: LONG}}}", "LONG", "OTHER",
            "telemetry.headers changed, restart"
        ),
    ]

    @Test("a change of a key that is not shown is seen, and needs a restart", arguments: hidden)
    func aChangeOfAHiddenKeyIsSeen(_ before: String, _ from: String, _ to: String, _ expected: String) throws {
        let (before, after) = (section(before), section(before).replacing(from, with: to))
        #expect(before != after)
        let found = changes(from: try plan(before), to: try plan(after))
        #expect(lines(found) == [expected])
        #expect(!PlanChange.text(found).contains("canary"))
        // The same file twice is no change.
        #expect(changes(from: try plan(after), to: try plan(after)).isEmpty)
    }

    @Test func theOrderOfVariablesIsNoChange() throws {
        let before = section("tokens: {store: command, command: [keep], environment: {A: \"1\", B: \"2\"}}")
        let after = section("tokens: {store: command, command: [keep], environment: {B: \"2\", A: \"1\"}}")
        #expect(changes(from: try plan(before), to: try plan(after)).isEmpty)
    }

    @Test func anotherDefaultThatIsWrittenOutIsNoChange() throws {
        let before = section("tokens: {store: command, command: [keep]}\naudit: {anchor: {command: [keep]}}")
        let after = before.replacing("[keep]", with: "[keep], timeout: 10s")
            .replacing("anchor: {command: [keep], timeout: 10s}", with: "anchor: {command: [keep], timeout: 5s}")
        #expect(before != after)
        #expect(changes(from: try plan(before), to: try plan(after)).isEmpty)
    }

    // MARK: Marks and items

    /// A mark that nothing looks up would hide the change that it stands for.
    @Test func eachMarkIsCompared() throws {
        let digest = digest(try plan())
        #expect(digest.marks.count > 10)
        for path in digest.marks.keys {
            var other = digest
            other.marks[path] = "another"
            let found = PlanChange.effective(PlanChange.between(digest, other))
            #expect(found.map(\.path) == [path], "\(path)")
            other.marks[path] = nil
            #expect(!PlanChange.effective(PlanChange.between(digest, other)).isEmpty, "\(path)")
        }
    }

    @Test func listenersOfOneNameAreComparedInTheirOrder() throws {
        var plan = try plan()
        plan.listeners[0].address = .tcp(host: "127.0.0.1", port: 0)
        plan.listeners.append(plan.listeners[0])
        plan.listeners[1].intercepts = false
        #expect(changes(from: plan, to: plan).isEmpty)
        var other = plan
        other.listeners.removeLast()
        #expect(lines(changes(from: plan, to: other)).contains("listeners.proxy.127.0.0.1:0 dropped"))
        #expect(lines(changes(from: other, to: plan)).contains("listeners.proxy.127.0.0.1:0 added"))
    }

    @Test func aReloadReplacesTheCertificateOfTheAdminListener() throws {
        let plan = try plan()
        var other = plan
        other.admin.tls?.certificatePath = "/other.pem"
        #expect(lines(changes(from: plan, to: other)) == ["listeners.admin.tls changed"])
    }

    // MARK: Properties

    /// A key that neither a text nor a digest has would change unnoticed.
    @Test func eachKeyIsCompared() {
        #expect(AccessDecoder.clientKeys.uncompared.isEmpty)
        #expect(AccessDecoder.keys.uncompared.isEmpty)
        #expect(AccessDecoder.jwtKeys.uncompared.isEmpty)
        #expect(AccessDecoder.limitKeys.uncompared.isEmpty)
        #expect(AdminDecoder.keys.uncompared.isEmpty)
        #expect(AdminDecoder.userKeys.uncompared.isEmpty)
        #expect(AuditPlan.keys.uncompared.isEmpty)
        #expect(EnginePlan.keys.uncompared.isEmpty)
        #expect(Limits.keys.uncompared.isEmpty)
        #expect(ListenerDecoder.connectKeys.uncompared.isEmpty)
        #expect(ListenerPlan.keys.uncompared.isEmpty)
        #expect(LocalAuthorityPlan.keys.uncompared.isEmpty)
        #expect(RenewalPolicy.keys.uncompared.isEmpty)
        #expect(RoutePlan.keys.uncompared.isEmpty)
        #expect(RoutePlan.Timeouts.keys.uncompared.isEmpty)
        #expect(TelemetryPlan.keys.uncompared.isEmpty)
        #expect(TokenPlan.keys.uncompared.isEmpty)
    }

    /// - Parameters:
    ///   - others: Properties that are compared in another way, or say nothing.
    ///   - place: Where the block is in a plan.
    private func expectEach<Block>(
        of block: Block?,
        except others: Set<String> = [],
        _ table: Changes<Block>,
        at place: (inout Plan, (inout Block) -> Void) -> Void
    ) throws {
        let block = try #require(block)
        let properties = Set(Mirror(reflecting: block).children.compactMap(\.label))
        #expect(properties.subtracting(others) == Set(table.keys), "\(Block.self)")
        let plan = try plan()
        for (property, change) in table {
            var other = plan
            place(&other, change)
            #expect(!changes(from: plan, to: other).isEmpty, "\(Block.self).\(property)")
        }
    }

    @Test func eachPropertyOfTokensIsCompared() throws {
        let plan = try plan()
        let tokens: Changes<TokenPlan> = [
            "store": { $0.store = .memory },
            // It has no effect with another store.
            "path": { ($0.store, $0.path) = (.sqlite, "/other") },
            "key": { $0.key = .value(Secret("other")) },
            "encryptionKey": { $0.encryptionKey = .value(Secret("other")) },
            "previousEncryptionKey": { $0.previousEncryptionKey = .value(Secret("other")) },
            "program": { $0.program = TokenProgram(command: ["keep"], timeout: .seconds(10)) },
            "database": { $0.database = nil },
        ]
        try expectEach(of: plan.tokens, tokens) { $1(&$0.tokens) }

        let other = try PostgreSQLURL("postgresql://other@db.example/tokens")
        let database: Changes<PostgreSQLPlan> = [
            "url": { $0.url = other }, "listenURL": { $0.listenURL = other },
            "password": { $0.password = Secret("other") }, "authorities": { $0.authorities = "/ca.pem" },
        ]
        try expectEach(of: plan.tokens.database, database) { plan, change in
            if var database = plan.tokens.database {
                change(&database)
                plan.tokens.database = database
            }
        }
    }

    @Test func eachPartOfTheURLOfADatabaseIsCompared() throws {
        let texts = [
            "postgresql://a:b@db.example:5432/tokens", "postgresql://x:b@db.example:5432/tokens",
            "postgresql://a:x@db.example:5432/tokens", "postgresql://a:b@x.example:5432/tokens",
            "postgresql://a:b@db.example:5433/tokens", "postgresql://a:b@db.example:5432/x",
            "postgresql://a:b@db.example:5432/tokens?sslmode=verify-full", "postgresql:///a?service=s",
            "postgresql:///b?service=s",
        ]
        let plan = try plan()
        var found: Set<[String: String]> = []
        for text in texts {
            var other = plan
            other.tokens.database?.url = try PostgreSQLURL(text)
            found.insert(digest(other).marks)
        }
        #expect(found.count == texts.count)
    }

    @Test func eachPropertyOfAProgramIsCompared() throws {
        let program: Changes<TokenProgram> = [
            "command": { $0.command = ["other"] }, "environment": { $0.environment = [.init("A", Secret("1"))] },
            "timeout": { $0.timeout += .milliseconds(1) },
        ]
        let blank = TokenProgram(command: ["keep"], timeout: .seconds(10))
        #expect(Set(Mirror(reflecting: blank).children.compactMap(\.label)) == Set(program.keys))
        var plan = try plan()
        plan.tokens.program = blank
        plan.audit.anchor = .command(blank, read: blank)
        for (property, change) in program {
            var changed = blank
            change(&changed)
            var other = plan
            other.tokens.program = changed
            #expect(!changes(from: plan, to: other).isEmpty, "tokens \(property)")
            other = plan
            other.audit.anchor = .command(changed, read: blank)
            #expect(lines(changes(from: plan, to: other)) == ["audit.anchor changed, restart"], "\(property)")
            other.audit.anchor = .command(blank, read: changed)
            #expect(lines(changes(from: plan, to: other)) == ["audit.anchor changed, restart"], "read \(property)")
        }
    }

    @Test func eachPropertyOfAuditIsCompared() throws {
        let audit: Changes<AuditPlan> = [
            "path": { $0.path = "/other" }, "store": { $0.store = .postgres }, "ships": { $0.ships.toggle() },
            "usage": { $0.usage = .request }, "retention": { $0.retention += .seconds(1) },
            "onFailure": { $0.onFailure = .degrade }, "anchor": { $0.anchor = .file(path: "/heads") },
            "onMissing": { $0.onMissing = .recreate }, "maximumBytes": { $0.maximumBytes += 1 },
        ]
        try expectEach(of: try plan().audit, audit) { $1(&$0.audit) }
    }

    @Test func eachPropertyOfTelemetryIsCompared() throws {
        let telemetry: Changes<TelemetryPlan> = [
            "origin": { $0.origin = Origin(scheme: .https, host: "other.example.com", port: 443) },
            "path": { $0.path = "/other" },
            "headers": { $0.headers = [Injection.Field(name: "X-Key", value: Secret("other"))] },
            "serviceName": { $0.serviceName = "other" }, "sampling": { $0.sampling -= 1 },
            "metricsInterval": { $0.metricsInterval = nil }, "exportsTraces": { $0.exportsTraces.toggle() },
        ]
        try expectEach(of: try plan().telemetry, telemetry) { plan, change in
            if var telemetry = plan.telemetry {
                change(&telemetry)
                plan.telemetry = telemetry
            }
        }
    }

    @Test func eachPropertyOfAccessIsCompared() throws {
        let plan = try plan()
        let access: Changes<AccessPlan> = [
            "clients": { $0.clients = [] }, "allowedOrigins": { $0.allowedOrigins = ["https://app.example.com"] },
            "requireClient": { $0.requireClient = .true },
        ]
        try expectEach(of: plan.access, access) { $1(&$0.access) }

        let keys = ClientJWTPlan.Keys.url(try AuthorityURL("https://issuer.example.com/jwks"))
        let jwt = ClientJWTPlan(issuer: "a", audience: "b", keys: keys)
        let proofs: Changes<AccessPlan.Client> = [
            "name": { $0.name = "other" }, "tokens": { $0.tokens = [.token(Secret("other"))] },
            "certificate": { $0.certificate = CertificateName("one.example.com") },
        ]
        var client = proofs
        client["jwt"] = { $0.jwt = jwt }
        client["limits"] = { $0.limits.concurrent = 1 }
        try expectEach(of: plan.access.clients.first, client) { $1(&$0.access.clients[0]) }

        let limits: Changes<ClientLimitsPlan> = [
            "concurrent": { $0.concurrent = 1 }, "perSecond": { $0.perSecond = 1 },
        ]
        try expectEach(of: plan.access.clients.first?.limits, limits) { $1(&$0.access.clients[0].limits) }

        // Users have no limits of their own, and no signed token proves them.
        let users = plan.admin.users
        try expectEach(of: users.first?.proofs, except: ["limits", "jwt"], proofs) { $1(&$0.admin.users[0].proofs) }
        let user: Changes<AdminUser> = ["role": { $0.role = .operator }]
        try expectEach(of: users.first, except: ["proofs"], user) { $1(&$0.admin.users[0]) }
    }

    @Test func eachPropertyOfListenersIsCompared() throws {
        let plan = try plan()
        let tls: Changes<ListenerPlan.TLS> = [
            "certificatePath": { $0.certificatePath = "/other.pem" }, "privateKey": { $0.privateKey = Secret("other") },
            "clientCAPath": { $0.clientCAPath = "/ca.pem" },
        ]
        let whole = ListenerPlan.TLS(certificatePath: "/cert.pem", privateKey: Secret("key"))
        let listener: Changes<ListenerPlan> = [
            "address": { $0.address = .unix(path: "/proxy.sock", allowedUsers: []) }, "tls": { $0.tls = whole },
            "intercepts": { $0.intercepts.toggle() },
            "publicURL": {
                $0.publicURL = GatewayURL(origin: Origin(scheme: .https, host: "one.example.com", port: 443))
            },
            "connect": { $0.connect.unrouted = .tunnel }, "usesLocalAuthority": { $0.usesLocalAuthority.toggle() },
        ]
        // The place in the file says nothing, and the engine has properties of its own.
        try expectEach(of: plan.listeners.first, except: ["engine", "span"], listener) { $1(&$0.listeners[0]) }
        try expectEach(of: plan.authz.first, except: ["engine", "span"], listener) { $1(&$0.authz[0]) }
        var sockets = plan
        sockets.listeners[0].address = .unix(path: "/proxy.sock", allowedUsers: [])
        var others = sockets
        others.listeners[0].address = .unix(path: "/proxy.sock", allowedUsers: [1000])
        #expect(lines(changes(from: sockets, to: others)) == ["listeners.proxy.unix /proxy.sock changed"])

        let connect: Changes<ConnectPlan> = [
            "unrouted": { $0.unrouted = .tunnel }, "allow": { $0.allow = [.host("one.example.com")] },
            "ports": { $0.ports = [8443] },
        ]
        try expectEach(of: plan.listeners.first?.connect, connect) { $1(&$0.listeners[0].connect) }

        let engine: Changes<EnginePlan> = [
            "name": { $0.name = "other" }, "contract": { $0.contract = .nginx },
            "tokens": { $0.tokens = [Secret("other")] }, "certificates": { $0.certificates = [.uriBelow("a://b/")] },
            "pathPrefix": { $0.pathPrefix = "/authz" }, "cache": { $0.cache = .seconds(1) },
        ]
        try expectEach(of: plan.authz.first?.engine, engine) { plan, change in
            if var engine = plan.authz[0].engine {
                change(&engine)
                plan.authz[0].engine = engine
            }
        }

        let admin: Changes<AdminPlan> = [
            "address": { $0.address = .tcp(host: "127.0.0.1", port: 8082) }, "tls": { $0.tls = nil },
            "requiresToken": { $0.requiresToken.toggle() }, "users": { $0.users = [] },
        ]
        try expectEach(of: plan.admin, admin) { $1(&$0.admin) }
        try expectEach(of: plan.admin.tls, tls) { plan, change in
            if var tls = plan.admin.tls {
                change(&tls)
                plan.admin.tls = tls
            }
        }
        for (property, change) in tls {
            var changed = whole
            change(&changed)
            var (before, after) = (plan, plan)
            (before.listeners[0].tls, after.listeners[0].tls) = (whole, changed)
            #expect(!changes(from: before, to: after).isEmpty, "listeners.proxy \(property)")
            (before, after) = (plan, plan)
            (before.authz[0].tls, after.authz[0].tls) = (whole, changed)
            #expect(!changes(from: before, to: after).isEmpty, "listeners.authz \(property)")
        }
    }

    @Test func eachPropertyOfTheLocalAuthorityIsCompared() throws {
        let authority: Changes<LocalAuthorityPlan> = [
            "permit": { $0.permit = ["example.com"] }, "isConstrained": { $0.isConstrained.toggle() },
            "days": { $0.days += 1 },
        ]
        try expectEach(of: try plan().localAuthority, authority) { $1(&$0.localAuthority) }
    }

    @Test func eachLimitIsCompared() throws {
        let limits: Changes<Limits> = [
            "headerBytes": { $0.headerBytes += 1 }, "headerFields": { $0.headerFields += 1 },
            "headerTimeout": { $0.headerTimeout += .milliseconds(1) },
            "bodyIdleTimeout": { $0.bodyIdleTimeout += .milliseconds(1) },
            "requestBodyBytes": { $0.requestBodyBytes = 1 }, "replayBodyBytes": { $0.replayBodyBytes += 1 },
            "headMemory": { $0.headMemory += 1 }, "uploadMemory": { $0.uploadMemory += 1 },
            "connections": { $0.connections = 1 }, "connectionsPerAddress": { $0.connectionsPerAddress = 1 },
            "streamsPerConnection": { $0.streamsPerConnection += 1 }, "pendingPerRoute": { $0.pendingPerRoute += 1 },
            "connectionsPerUpstream": { $0.connectionsPerUpstream += 1 },
            "pendingPerUpstream": { $0.pendingPerUpstream += 1 },
            "credentialTimeout": { $0.credentialTimeout += .milliseconds(1) },
            "connectTimeout": { $0.connectTimeout += .milliseconds(1) },
            "connectionMaxAge": { $0.connectionMaxAge += .milliseconds(1) },
            "responseTimeout": { $0.responseTimeout += .milliseconds(1) },
            "idleTimeout": { $0.idleTimeout += .milliseconds(1) }, "keepAlive": { $0.keepAlive += .milliseconds(1) },
            "drain": { $0.drain += .milliseconds(1) },
        ]
        try expectEach(of: try plan().limits, limits) { $1(&$0.limits) }
    }
}
