import FoundationEssentials
import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayStrategies
import GatewayTokens
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("Plan", .timeLimit(.minutes(5)))
struct PlanTests {
    private static let secrets = MemorySecrets(
        variables: ["TOKEN": "t-secret", "KEY": "-----BEGIN PRIVATE KEY-----\nk-secret\n-----END PRIVATE KEY-----"],
        files: ["/work/laptop.token": "l-secret-of-sixteen"]
    )

    private func outcome(_ text: String) -> ConfigOutcome {
        let files = MemoryFiles(["/work/gateway.yaml": text])
        return ConfigLoader(files: files, environment: { Self.secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: Self.secrets)
    }

    private func plan(_ text: String) throws -> Plan {
        let outcome = outcome(text)
        #expect(outcome.report(consequence: "refused") == "")
        return try #require(outcome.plan)
    }

    private static let smallest = "version: 1\nroutes: {box: {upstream: https://api.box.com, auth: none}}\n"

    @Test func whatIsNotWrittenHasItsDefault() throws {
        let plan = try plan(Self.smallest)
        #expect(plan.stateDirectory == "/work/state")
        #expect(plan.workers == .auto)
        #expect(plan.listeners.map(\.address) == [.tcp(host: "127.0.0.1", port: 8080)])
        #expect(plan.admin == AdminPlan(address: .tcp(host: "127.0.0.1", port: 8081)))
        #expect(plan.audit.path == "/work/state/audit.sqlite")
        #expect(plan.audit.retention == .seconds(90 * 86_400))
        #expect(plan.audit.onMissing == .refuse)
        #expect(plan.audit.maximumBytes == 10 << 30)
        #expect(plan.tokens.key == .file(path: "/work/state/token.key"))
        #expect(plan.limits == Limits())
        #expect(plan.credentials.isEmpty)
        let route = try #require(plan.routes.first)
        #expect(route.matchPath == "/box")
        #expect(route.matchHosts == ["box.localhost"])
        #expect(route.credential == nil)
        #expect(route.matchesUpstreamHost)
    }

    @Test(
        arguments: [
            ("X-Request-Id", "X-Request-Id"), ("off", nil), ("false", nil), ("\"off\"", nil), ("trace_id", "trace_id"),
            (String(repeating: "x", count: 64), String(repeating: "x", count: 64)),
        ] as [(String, String?)]
    )
    func theFieldThatNamesRequestsCanBeChosen(_ value: String, _ expected: String?) throws {
        #expect(try plan(Self.smallest).requestIDHeader == "Gateway-Request-Id")
        #expect(try plan(Self.smallest + "request_id_header: \(value)\n").requestIDHeader == expected)
    }

    @Test(arguments: [
        "Content-Length", "connection", "Transfer_Encoding", "Set-Cookie", "Location", "Date", "Gateway-Token",
        "X Request", "\"\"", "X-Request-Id:", "[a]", "\"\(String(repeating: "x", count: 65))\"",
    ])
    func aFieldThatMeansSomethingElseNamesNoRequests(_ value: String) {
        let outcome = outcome(Self.smallest + "request_id_header: \(value)\n")
        #expect(outcome.plan == nil)
        #expect(outcome.report(consequence: "refused").contains("request_id_header"))
    }

    @Test func everythingThatIsWrittenIsInThePlan() throws {
        let plan = try plan(
            """
            version: 1
            state_directory: /var/lib/gateway
            workers: 2
            proxy_status: false
            listeners:
              proxy:
                - address: 0.0.0.0:8443
                  tls: {certificate: cert.pem, private_key: {env: KEY}, client_ca: ca.pem}
                - address: "[::1]:8080"
                - unix: run/proxy.sock
                  allow_users: [0, 1000]
              admin: {address: localhost:9000, require_token: true}
            access:
              clients:
                laptop: {token: {file: ./laptop.token}}
                ci: {token_sha256: "02ed3077b032c1e0a58c88b63840ca927c8a0fcab59f6c6f19fc4225c594fc4e"}
              allow_origins: [HTTPS://App.example.com:443]
              require_client: true
            audit: {path: log.sqlite, usage: none, retention: 1d, on_failure: degrade, on_missing: recreate, max_bytes: 64MiB}
            tokens: {store: memory, key: {env: TOKEN}}
            limits: {header_bytes: 64KiB, drain: 0s, request_body_bytes: 5368709120, replay_body_bytes: 0}
            routes:
              reports:
                upstream: http://Reports.example.com:8000/v2/
                allow_plaintext: true
                match: {path: /reports/, hosts: ["*.Example.org"]}
                auth: {strategy: bearer, token: {env: TOKEN}, as_user: "42"}
                allow:
                  - {methods: [GET, HEAD], path: /**}
                clients: [laptop]
            """
        )
        #expect(plan.stateDirectory == "/var/lib/gateway")
        #expect(plan.workers == .exactly(2))
        #expect(!plan.sendsProxyStatus)
        #expect(
            plan.listeners.map(\.address) == [
                .tcp(host: "0.0.0.0", port: 8443), .tcp(host: "::1", port: 8080),
                .unix(path: "/work/run/proxy.sock", allowedUsers: [0, 1000]),
            ]
        )
        #expect(plan.listeners[0].tls?.certificatePath == "/work/cert.pem")
        #expect(plan.listeners[0].tls?.clientCAPath == "/work/ca.pem")
        #expect(plan.admin == AdminPlan(address: .tcp(host: "localhost", port: 9000), requiresToken: true))
        #expect(plan.access.clients.map(\.name) == ["laptop", "ci"])
        #expect(plan.access.clients[0].tokens == [.token(Secret("l-secret-of-sixteen"))])
        #expect(plan.access.allowedOrigins == ["https://app.example.com"])
        #expect(plan.access.requireClient == .true)
        #expect(plan.audit.usage == .none)
        #expect(plan.audit.onFailure == .degrade)
        #expect(plan.audit.onMissing == .recreate)
        #expect(plan.audit.maximumBytes == 64 << 20)
        #expect(plan.tokens.store == .memory)
        #expect(plan.tokens.key == .value(Secret("t-secret")))
        #expect(plan.limits.headerBytes == 64 << 10)
        #expect(plan.limits.drain == .zero)
        #expect(plan.limits.requestBodyBytes == 5 << 30)
        #expect(plan.limits.replayBodyBytes == 0)
        let route = try #require(plan.routes.first)
        #expect(route.upstream == Origin(scheme: .http, host: "reports.example.com", port: 8000))
        #expect(route.upstreamPath == "/v2")
        #expect(route.matchPath == "/reports")
        #expect(route.matchHosts == ["*.example.org"])
        #expect(route.asUser?.id == "42")
        #expect(route.asUser?.field.name == "As-User")
        #expect(route.allow.map(\.path.description) == ["/**"])
        #expect(route.clients == ["laptop"])
        #expect(plan.credentials.map(\.name) == ["routes.reports"])
    }

    @Test func aRouteMaySetAndRemoveFields() throws {
        let text = """
            version: 1
            routes:
              box:
                upstream: https://api.box.com
                auth: none
                headers:
                  set: {X-Tenant: acme, X-Api-Key: {env: TOKEN}}
                  remove: [Cookie, authorization]

            """
        let plan = try plan(text)
        let headers = try #require(plan.routes.first?.headers)
        #expect(headers.set.map(\.name) == ["X-Tenant", "X-Api-Key"])
        #expect(headers.set.map(\.value) == [Secret("acme"), Secret("t-secret")])
        #expect(headers.remove == ["Cookie", "authorization"])
        let shown = PlanSummary(plan)
        #expect(shown.text().contains("headers.set: [X-Tenant, X-Api-Key]"))
        #expect(shown.text().contains("headers.remove: [Cookie, authorization]"))
        #expect(!shown.text().contains("acme") && !shown.json().contains("t-secret"))
        #expect(!"\(plan)".contains("t-secret"))
        let other = try self.plan(text.replacing("acme", with: "other"))
        let mark = { (bytes: [UInt8]) in String(decoding: bytes, as: UTF8.self) }
        let changes = PlanChange.between(PlanDigest(plan, mark: mark), PlanDigest(other, mark: mark))
        #expect(PlanChange.effective(changes).map(\.path) == ["routes.box"])
    }

    @Test func aRouteMayDecideWhatTellsOfTheClient() throws {
        let text = """
            version: 1
            routes:
              box: {upstream: "https://api.box.com", auth: none, headers: {forwarded: replace}}

            """
        let plan = try plan(text)
        #expect(plan.routes.first?.headers == RoutePlan.Headers(forwarded: .replace))
        #expect(PlanSummary(plan).text().contains("headers.forwarded: replace"))
        let other = try self.plan(text.replacing("replace", with: "append"))
        let mark = { (bytes: [UInt8]) in String(decoding: bytes, as: UTF8.self) }
        let changes = PlanChange.between(PlanDigest(plan, mark: mark), PlanDigest(other, mark: mark))
        #expect(PlanChange.effective(changes).map(\.path) == ["routes.box"])
        let passing = try self.plan(text.replacing("replace", with: "pass"))
        #expect(passing.routes.first?.headers == RoutePlan.Headers(forwarded: .pass))
        #expect(PlanSummary(passing).text().contains("headers.forwarded: pass"))
        let removing = try self.plan(text.replacing("replace", with: "remove"))
        #expect(removing.routes.first?.headers == RoutePlan.Headers())
        #expect(!PlanSummary(removing).text().contains("headers"))
    }

    @Test func theTokenStoreMayHaveAKeyOfItsOwn() throws {
        let rest = "routes: {box: {upstream: https://api.box.com, auth: none}}\n"
        let keys = "encryption_key: {file: store.key}, previous_encryption_key: {env: TOKEN}"
        let plan = try plan("version: 1\ntokens: {\(keys)}\n\(rest)")
        #expect(plan.tokens.encryptionKey == .file(path: "/work/store.key"))
        #expect(plan.tokens.previousEncryptionKey == .value(Secret("t-secret")))
        let alone = outcome("version: 1\ntokens: {previous_encryption_key: {env: TOKEN}}\n\(rest)")
        #expect(alone.plan == nil)
        #expect(
            alone.report(consequence: "refused").contains("tokens.previous_encryption_key: says what the store was")
        )
        let memory = outcome("version: 1\ntokens: {store: memory, encryption_key: {env: TOKEN}}\n\(rest)")
        #expect(memory.report(consequence: "refused").contains("tokens.encryption_key: is for \"store: sqlite\""))
    }

    @Test func aSecretMayHaveAnEnd() throws {
        let plan = try plan(
            """
            version: 1
            credentials:
              key: {strategy: header, name: X-Key, value: {env: TOKEN}, expires: 2027-01-31}
              time: {strategy: bearer, token: {env: TOKEN}, expires: "2027-01-31T12:00:00+01:00"}
              plain: {strategy: basic, username: a, password: {env: TOKEN}}
            routes:
              a: {upstream: https://a.example.com, auth: key}
              b: {upstream: https://b.example.com, auth: time}
              c: {upstream: https://c.example.com, auth: plain}
            """
        )
        let ends = ["2027-01-31T00:00:00Z", "2027-01-31T11:00:00Z"].map { UnixTime(rfc3339: $0) }
        #expect(plan.credentials.map(\.expires) == ends + [nil])
    }

    /// Who has to replace a secret is told where it stands; nothing of it is told.
    @Test func theOriginOfASecretThatIsSentAsItIsIsKnown() throws {
        let outcome = outcome(
            """
            version: 1
            credentials:
              variable: {strategy: bearer, token: {env: TOKEN}}
              file: {strategy: header, name: X-Api-Key, value: {file: laptop.token}}
              plain:
                strategy: basic
                username: me
                password: pw-secret
              key: {strategy: basic, username: k-secret, password: ""}
            routes:
              a: {upstream: https://a.example, auth: variable}
              b: {upstream: https://b.example, auth: file}
              c: {upstream: https://c.example, auth: plain}
              d: {upstream: https://d.example, auth: key}
              e: {upstream: https://e.example, auth: none}
            """
        )
        let credentials = try #require(outcome.plan).credentials
        #expect(
            credentials.map { $0.secretOrigin?.words } == [
                "the environment variable TOKEN (gateway.yaml:3)", "the file laptop.token (gateway.yaml:4)",
                "gateway.yaml:8", "gateway.yaml:9",
            ]
        )
        #expect(credentials.map { $0.secretOrigin?.isVariable } == [true, false, false, false])
        let secrets = credentials.compactMap { $0.strategy.injectedSecret?.secret }
        #expect(secrets == ["t-secret", "l-secret-of-sixteen", "pw-secret", "k-secret"].map { Secret($0) })
    }

    @Test func credentialsAreNamedFirstThenInlineThenSwitched() throws {
        let plan = try plan(
            """
            version: 1
            credentials:
              box: &box
                strategy: box_ccg
                client_id: id
                client_secret: {env: TOKEN}
                subject: {enterprise: "1"}
                renew: {ahead: 20%, at_least: 2m}
                retry_on: [401, 403]
                on_authority_failure: fail
            routes:
              a: {upstream: https://a.example.com, auth: {credential: box, subject: {user: "42"}}}
              b: {upstream: https://b.example.com, auth: box}
              c: {upstream: https://c.example.com, auth: {credential: box, subject: {user: "42"}, as_user: "7"}}
              d: {upstream: https://d.example.com, auth: {strategy: bearer, token: {env: TOKEN}}}
              e: {upstream: https://e.example.com, auth: {credential: box, subject: {enterprise: "1"}}}
              f: {upstream: https://f.example.com, auth: {strategy: none}}
            """
        )
        #expect(plan.credentials.map(\.name) == ["box", "box[user:42]", "routes.d"])
        #expect(plan.routes.map(\.credential) == [1, 0, 1, 2, 0, nil])
        #expect(plan.routes.map(\.asUser?.id) == [nil, nil, "7", nil, nil, nil])
        #expect(plan.credentials[1].policy == plan.credentials[0].policy)
        #expect(plan.credentials[0].policy.aheadPercent == 20)
        #expect(plan.credentials[0].policy.retryOn == [401, 403])
        #expect(plan.credentials[0].policy.onAuthorityFailure == .fail)
    }

    private func session(_ more: String) -> ConfigOutcome {
        outcome(
            """
            version: 1
            credentials:
              app:
                strategy: session_refresh
                base_url: https://id.example.com
                refresh: {path: /refresh, session_token: {header: X-Session}}
                session_token: {env: TOKEN}
                \(more)
            routes: {app: {upstream: https://app.example.com, auth: app}}
            """
        )
    }

    @Test func theEndOfASessionIsDescribed() throws {
        let rule =
            "rejected_when: {status: [302, 303], location: https://ID.example.com/login/, body: '\"error\":\\s*\"x\"'}"
        let outcome = session(rule)
        #expect(outcome.report(consequence: "refused") == "")
        let plan = try #require(outcome.plan)
        let found = try #require(plan.credentials.first?.policy.rejectedWhen)
        #expect(found.statuses == [302, 303] && found.location?.text == "https://id.example.com/login")
        #expect(found.body?.firstMatch(in: #"{"error": "x"}"#.utf8) != nil)
        let shown = PlanSummary(plan).text()
        #expect(
            shown.contains(
                #"{status: [302, 303], location: https://id.example.com/login, body: "\"error\":\\s*\"x\""}"#
            )
        )
        #expect(try #require(session("rejected_when: {location: /}").plan).credentials[0].policy.rejectedWhen != nil)
    }

    @Test(arguments: [
        ("rejected_when: {}", "rejected_when: needs at least one of status, location and body"),
        ("rejected_when: {status: [200, 302]}", "rejected_when.status: would match every such response"),
        ("rejected_when: {status: [500]}", "expected a status between 200 and 499"),
        ("rejected_when: {location: login}", "rejected_when.location: expected the beginning of a URL"),
        ("rejected_when: {location: \"/login?next=\"}", "rejected_when.location: expected the beginning of a URL"),
        ("rejected_when: {body: \"(\"}", "rejected_when.body: "),
        ("rejected_when: {body: \"(.*a){30}z\"}", "steps for each byte, and at most 128 are allowed"),
        ("rejected_when: {page: x}", "unknown key \"page\""),
        ("retry_on: [302]", "expected a status between 400 and 499; for a redirect or a page, see rejected_when"),
    ])
    func aMistakeInTheEndOfASessionIsNamed(_ text: String, _ words: String) {
        let report = session(text).report(consequence: "refused")
        #expect(report.contains(words), "\(report)")
    }

    @Test func onlySessionsEndByAPage() {
        let text =
            "version: 1\nroutes: {a: {upstream: https://a.example.com, auth: {strategy: oauth2_client_credentials, "
            + "token_url: https://a.example.com/t, client_id: x, client_secret: {env: TOKEN}, rejected_when: {status: [302]}}}}\n"
        #expect(outcome(text).report(consequence: "refused").contains("unknown key \"rejected_when\""))
    }

    @Test func routesThatShareAnUpstreamAreFoundByItsHostWhereSomethingTellsThemApart() throws {
        let plan = try plan(
            """
            version: 1
            routes:
              a: {upstream: https://api.box.com, auth: none}
              b: {upstream: https://api.box.com, auth: none}
              c: {upstream: https://upload.box.com, auth: none}
            """
        )
        #expect(
            PlanSummary(plan).routes.map { $0.values["absolute_form"] } == [.flag(false), .flag(false), .flag(true)]
        )
        var apart = plan
        apart.routes[0].upstreamMatchPath = "/2.0"
        #expect(
            PlanSummary(apart).routes.map { $0.values["absolute_form"] } == [.flag(true), .flag(true), .flag(true)]
        )
    }

    @Test func routesMayShareAHostThatBothOfThemName() throws {
        let plan = try plan(
            """
            version: 1
            routes:
              a: {upstream: https://a.example.com, auth: none, match: {path: /a, hosts: [api.local]}}
              b: {upstream: https://b.example.com, auth: none, match: {path: /a/b, hosts: [api.local]}}
            """
        )
        #expect(plan.routes.map(\.matchHosts) == [["api.local"], ["api.local"]])
    }

    @Test func theSummaryHoldsNoSecretAndIsTheSameEveryTime() throws {
        let text = """
            version: 1
            access: {clients: {laptop: {token: {file: laptop.token}}}}
            tokens: {key: {env: TOKEN}}
            routes:
              a: {upstream: https://a.example.com, auth: {strategy: bearer, token: {env: TOKEN}}}
              b: {upstream: https://b.example.com, auth: {strategy: basic, username: svc, password: {env: TOKEN}}}
            """
        let summary = PlanSummary(try plan(text))
        for rendering in [summary.text(), summary.json()] {
            #expect(!rendering.contains("secret"))
            #expect(rendering.contains("routes.b"))
        }
        #expect(try PlanSummary(plan(text)).text() == summary.text())
        #expect(try PlanSummary(plan(text)).json() == summary.json())
    }

    @Test func theSummaryReadsLikeTheConfiguration() throws {
        let text = PlanSummary(try plan(Self.smallest)).text()
        let settings =
            "state_directory: /work/state\nworkers: auto\nproxy_status: true\nrequest_id_header: Gateway-Request-Id\n"
        #expect(text.hasPrefix(settings + "listeners:\n  proxy: 127.0.0.1:8080\n"))
        #expect(
            text.hasSuffix(
                """
                routes:
                  box:
                    upstream: https://api.box.com
                    path: /box
                    hosts: [box.localhost]
                    credential: none
                    cookies: pass

                """
            )
        )
    }

    /// Nearly every key of routes, listeners and renewals.
    private static let rich = """
        version: 1
        access: {clients: {laptop: {token: {file: laptop.token}}}}
        listeners:
          proxy:
            - {unix: /work/a.sock, allow_users: [1000], intercept: true, connect: {unrouted: tunnel, ports: [443, 8443]}}
          authz: [{address: "127.0.0.1:8191", engine: edge, contract: nginx, token: 0123456789abcdef, cache: 10s}]
        credentials:
          key:
            strategy: oauth2_client_credentials
            token_url: https://id.example.com/token
            client_id: app
            client_secret: {env: TOKEN}
            renew: {ahead: 20%}
            retry_on: [401, 403]
        routes:
          a:
            upstream: https://a.example.com/v2
            auth: key
            match: {upstream_path: /v2/users}
            headers: {set: {X-A: b}, remove: [X-B]}
            rewrite: {links: false}
            via: false
            protocol: auto
            timeouts: {response: 10m}
            allow: [{methods: [GET, HEAD], path: /**}, {path: /x}]
            clients: [laptop]
            authz: [edge]
            allow_origins: [https://app.example.com]
          b: {upstream: "http://127.0.0.1:9", auth: none, connection_auth: true}
        """

    @Test func theSummaryShowsEachKeyInItsOrder() throws {
        let text = PlanSummary(try #require(outcome(Self.rich).plan)).text()
        let tunnel = "tunnel to every public server at ports [443, 8443]"
        #expect(
            text.contains(
                """
                listeners:
                  proxy: unix /work/a.sock, allow_users [1000], intercept, \(tunnel)
                  authz: 127.0.0.1:8191, engine edge, contract nginx, cache 10s
                  admin: 127.0.0.1:8081

                """
            ),
            "\(text)"
        )
        #expect(
            text.contains(
                """
                    renew: {ahead: 20%, at_least: 1m}
                    retry_on: [401, 403]
                    on_authority_failure: serve_until_expiry
                    acquire_on: demand
                    used by: a

                """
            ),
            "\(text)"
        )
        #expect(
            text.hasSuffix(
                """
                routes:
                  a:
                    upstream: https://a.example.com/v2
                    path: /a
                    hosts: [a.localhost]
                    match.upstream_path: /v2/users
                    credential: key
                    headers.set: [X-A]
                    headers.remove: [X-B]
                    cookies: drop
                    rewrite.links: false
                    via: false
                    protocol: auto
                    timeouts.response: 10m
                    allow: GET, HEAD /**
                    allow: any method /x
                    clients: [laptop]
                    authz: [edge]
                    allow_origins: [https://app.example.com]
                  b:
                    upstream: http://127.0.0.1:9 (plaintext)
                    path: /b
                    hosts: [b.localhost]
                    credential: none
                    cookies: pass
                    connection_auth: true

                """
            ),
            "\(text)"
        )
    }

    /// `plan` compares the plan of a running gateway, which comes as JSON.
    @Test func theSummaryReadsTheSameFromItsJSON() throws {
        let summary = PlanSummary(try #require(outcome(Self.rich).plan))
        let json = summary.json()
        for member in [
            "\"absolute_form\" : true", "\"connection_auth\" : true", "\"rewrites_links\" : false",
            "\"renewable\" : true",
            "\"client_certificates\" : false",
        ] {
            #expect(json.contains(member), "\(json)")
        }
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let read = try decoder.decode(PlanSummary.self, from: Data(json.utf8))
        #expect(read == summary)
        #expect(read.text() == summary.text())
    }

    @Test func aPlanIsMadeInSpiteOfWarnings() {
        let outcome = outcome(
            "version: 1\nroutes: {a: {upstream: https://a.example.com, auth: {strategy: bearer, token: hunter2}}}\n"
        )
        #expect(outcome.plan != nil)
        #expect(outcome.diagnostics.map(\.severity) == [.warning])
        #expect(outcome.report(consequence: "refused").hasSuffix("\n1 warning.\n"))
    }
}
