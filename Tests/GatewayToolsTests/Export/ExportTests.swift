import GatewayTesting
import Testing

@testable import GatewayHTTP
@testable import GatewayProxy
@testable import GatewayTokens
@testable import GatewayTools

@Suite("Configurations for other proxies", .timeLimit(.minutes(5)))
struct ExportTests {
    private static func box() -> ExportFixture {
        var fixture = ExportFixture()
        fixture.add("box", hosts: ["box.localhost"])
        return fixture
    }

    // MARK: Text

    /// Lines that must be there, whatever else is.
    private static let expected: [(ExportedProxy, [String])] = [
        (
            .nginx,
            [
                #"location ~ "^/box(?:/|$)" {"#, "error_page 401 = @authgateway_renew_box_2;",
                "auth_request /_authgateway/ask;",
                #"proxy_ssl_name "api.box.com";"#, "proxy_ssl_verify on;", "server 127.0.0.1:8191;",
                "listen 127.0.0.1:8000 default_server;", #"proxy_set_header Host "api.box.com";"#,
                "proxy_set_header Authorization $gw_field_1;", #"proxy_set_header X-Forwarded-For "";"#,
                #"proxy_set_header Cookie "";"#, "include authgateway-token.conf;",
            ]
        ),
        (
            .envoy,
            [
                #"- match: {prefix: "/box/"}"#, #"- match: {path: "/box"}"#, #"sni: "api.box.com""#,
                "failure_mode_allow: false", "num_retries: 1}", #"domains: ["box.localhost"]"#,
                #"value: "%ENVIRONMENT(AUTHGATEWAY_ENGINE_TOKEN)%""#,
            ]
        ),
        (
            .traefik,
            [
                "rule: \"PathRegexp(`^/box(/|$)`)\"", #"address: "http://127.0.0.1:8191/""#, "passHostHeader: false",
                #"X-Gw-Engine-Token: '{{ env "AUTHGATEWAY_ENGINE_TOKEN" }}'"#, #"X-Gw-Route: "box""#,
            ]
        ),
        (
            .caddy,
            [
                "vars_regexp {http.request.orig_uri} ^/box([/?].*)?$", "reverse_proxy 127.0.0.1:8191 {",
                "reverse_proxy https://api.box.com:443 {", "header_up X-Gw-Engine-Token {env.AUTHGATEWAY_ENGINE_TOKEN}",
                "tls_server_name api.box.com", "header_up -Cookie",
            ]
        ),
        (
            .haproxy,
            [
                "bind 127.0.0.1:8000", "http-request return status 503 unless { var(txn.gw_granted) -m bool }",
                "http-request set-header Authorization %[var(txn.gw_field_1)]",
                "sni str(api.box.com) verifyhost api.box.com",
            ]
        ),
    ]

    @Test(arguments: expected)
    func aRouteIsExported(_ proxy: ExportedProxy, _ expected: [String]) throws {
        let text = try Self.box().export(proxy)
        for line in expected { #expect(text.contains(line), "\(line) in \(text)") }
    }

    /// Most proxies have one limit for the time before a response and for pauses within it.
    @Test(
        arguments: [
            (.nginx, "proxy_read_timeout 900s;", "proxy_read_timeout 60s;"),
            (.envoy, "idle_timeout: 900s", "idle_timeout: 60s"),
            (.traefik, "responseHeaderTimeout: 600s", "responseHeaderTimeout: 60s"),
            (.caddy, "response_header_timeout 600s", "response_header_timeout 60s"),
            (.haproxy, "timeout server 900s", "timeout server 60s"),
        ] as [(ExportedProxy, String, String)]
    )
    func aProxyWaitsAsLongAsTheGatewayWould(_ proxy: ExportedProxy, _ slow: String, _ other: String) throws {
        var fixture = Self.box()
        fixture.add("slow") { $0.timeouts = RoutePlan.Timeouts(response: .seconds(600), idle: .seconds(900)) }
        let text = try fixture.export(proxy)
        #expect(text.contains(slow) && text.contains(other), "\(text)")
        if proxy == .haproxy { #expect(text.contains("timeout client 900s"), "\(text)") }
    }

    @Test(arguments: ExportedProxy.allCases)
    func noSecretIsInIt(_ proxy: ExportedProxy) throws {
        var fixture = Self.box()
        let secret = Injection(fields: [Injection.Field(name: "X-Api-Key", value: Secret("the-fixed-key"))])
        fixture.add("fixed", behavior: .fixed(secret)) { route in
            route.headers.set = [Injection.Field(name: "X-Team", value: Secret("the-team's-key"))]
        }
        let text = try fixture.export(proxy)
        #expect(text.lowercased().contains("x-team"), "the gateway's answer brings its value")
        for value in ["the-engine's-own-token", "the-fixed-key", "the-team's-key"] { #expect(!text.contains(value)) }
    }

    /// Clients send these to be taken for somebody else.
    @Test(arguments: ExportedProxy.allCases)
    func whatClientsMayNotSayIsRemoved(_ proxy: ExportedProxy) throws {
        var fixture = ExportFixture()
        let key = Injection(fields: [Injection.Field(name: "X-Api-Key", value: Secret("x"))])
        fixture.add("keyed", behavior: .fixed(key)) { $0.headers.remove = ["X-Debug"] }
        let text = try fixture.export(proxy).lowercased()
        let names = [
            "authorization", "proxy-authorization", "x-gw-generation", "x-gw-rejected-generation", "x-gw-engine-token",
            "x-gw-route", "x-original-uri", "x-forwarded-host", "x-forwarded-uri", "forwarded", "x_api_key", "x-debug",
        ]
        for name in names {
            let spellings = [
                "proxy_set_header \(name) \"\";", "\"\(name)\"", "header_up -\(name)", "\"\(name)\": \"\"",
                "del-header \(name)",
            ]
            #expect(spellings.contains { text.contains($0) }, "\(name)")
        }
    }

    @Test(arguments: ExportedProxy.allCases)
    func aCredentialWithoutGenerationsIsNotReplayed(_ proxy: ExportedProxy) throws {
        var fixture = ExportFixture()
        fixture.add("fixed", behavior: .fixed(.authorization(scheme: "Basic", Secret("x"))))
        let text = try fixture.export(proxy)
        for word in ["error_page", "retry_policy", "chain: [again", "@rejected", "http-response lua"] {
            #expect(!text.contains(word), "\(word)")
        }
    }

    @Test func nginxKeepsAnswersWhereTheListenerSaysSo() throws {
        var fixture = Self.box()
        #expect(try !fixture.export(.nginx).contains("proxy_cache"))
        fixture.cache = .seconds(5)
        let text = try fixture.export(.nginx)
        #expect(text.contains("proxy_cache authgateway;"))
        let key =
            #"proxy_cache_key "$gw_route\n$scheme\n$request_method\n$http_host\n$request_uri\n$http_authorization\n"#
        #expect(text.contains(key), "a client cannot write the separator")
        #expect(!text.contains("|$http"))
        let renewals = text.split(separator: "location = /_authgateway/renew").dropFirst()
        #expect(renewals.count == 2)
        for renewal in renewals { #expect(!renewal.prefix { $0 != "}" }.contains("proxy_cache")) }
    }

    /// A field that the key has in one form, and the gateway or the upstream in another, would be judged as what it is not.
    @Test func whatTheCacheKeyHasIsForwardedAsItWasKeyed() throws {
        var fixture = Self.box()
        fixture.cache = .seconds(5)
        let key = Injection(fields: [Injection.Field(name: "X-Api-Key", value: Secret("x"))])
        fixture.add("keyed", behavior: .fixed(key))
        let text = try fixture.export(.nginx)
        let lines = text.split(separator: "\n").map { $0.drop { $0 == " " } }
        let cacheKey = try #require(lines.first { $0.hasPrefix("proxy_cache_key ") })
        let servers = lines.split { $0 == "server {" }.dropFirst()
        #expect(servers.count == 2 && servers.allSatisfy { $0.contains("underscores_in_headers off;") })
        let locations = lines.split { $0.hasPrefix("location ") }.dropFirst()
        let asking = locations.filter { $0.contains("proxy_pass http://authgateway/;") }
        let forwarding = locations.filter { $0.contains { $0.hasPrefix("proxy_pass https:") } }
        #expect(asking.count == 4 && forwarding.count >= 4)
        #expect(asking.allSatisfy { $0.contains("proxy_pass_request_headers off;") })
        #expect(forwarding.allSatisfy { !$0.contains("proxy_pass_request_headers off;") })
        for name in ["Authorization", "Origin", "Sec-Fetch-Site", "Via", "x-http-method-override", "X-Api-Key"] {
            let variable = "$http_" + name.lowercased().replacing("-", with: "_")
            #expect(cacheKey.contains(#"\n\#(variable)"#), "\(name)")
            let line = "proxy_set_header \(name) \(variable);"
            #expect(asking.allSatisfy { $0.contains { $0 == line } }, "\(name)")
            let isRemoved = name == "Authorization" || name == "X-Api-Key"
            #expect(forwarding.allSatisfy { $0.contains { $0 == line } == !isRemoved }, "\(name)")
        }
        #expect(try !Self.box().export(.nginx).contains("proxy_pass_request_headers"), "where nothing is kept")
    }

    @Test func socketsAreAskedWhereTheProxyCan() throws {
        var fixture = Self.box()
        fixture.address = .unix(path: "/run/gw.sock", allowedUsers: [33])
        #expect(try fixture.export(.nginx).contains(#"server "unix:/run/gw.sock";"#))
        #expect(try fixture.export(.envoy).contains(#"{pipe: {path: "/run/gw.sock"}}"#))
        #expect(try fixture.export(.caddy).contains("reverse_proxy unix//run/gw.sock {"))
        #expect(try fixture.export(.haproxy).contains("'unix@/run/gw.sock'"))
        #expect(fixture.problem(.traefik)?.contains("listeners.authz.unix") == true)
    }

    @Test func envoyAsksByGRPCWhereItIsTold() throws {
        let text = try Self.box().export(.envoy, usesGRPC: true)
        #expect(text.contains("envoy_grpc: {cluster_name: authgateway}"))
        #expect(text.contains("initial_metadata: [{key: x-gw-engine-token"))
        #expect(text.contains("explicit_http_config: {http2_protocol_options: {}}"))
        #expect(!text.contains("http_service:"))
    }

    // MARK: Hosts and paths

    @Test func requestsFindTheRouteThatTheGatewayFinds() throws {
        var fixture = ExportFixture()
        fixture.add("all", path: "/", hosts: ["all.example", "*.all.example"])
        fixture.add("api", path: "/api", hosts: ["api.example", "*.deep.all.example"])
        fixture.add("files", upstreamPath: "/v2", path: "/api/files", hosts: ["api.example"]) { $0.matchesAll = true }
        let export = try EngineExport(
            fixture.plan(contracts: [.nginx]),
            for: .nginx,
            routes: [],
            engine: nil,
            listen: "[::1]:80"
        )
        let shown = export.hosts.map { host in
            "\(host.name ?? "any"): "
                + host.entries.map { "\($0.prefix)=\($0.route.name)\($0.isStripped ? "" : "!")" }.joined(separator: " ")
        }
        #expect(
            shown == [
                "all.example: =all!", "api.example: /api/files=files /api=api =all", "*.deep.all.example: =api!",
                "*.all.example: =all!", "any: /api=api =all",
            ]
        )
        #expect(Set(export.hosts.flatMap(\.entries).map(\.identifier)).count == 8, "names differ")
    }

    // MARK: Hostile names

    /// Whatever a path or a name may hold, it stays one word.
    @Test(arguments: ExportedProxy.allCases)
    func charactersOfPathsAreNoSyntax(_ proxy: ExportedProxy) throws {
        var fixture = ExportFixture()
        fixture.add("a.b-c_d", path: "/a.b(c)+'d'&e,f=g:h@i~j!", hosts: ["*.x-y.example"])
        let text = try fixture.export(proxy)
        switch proxy {
        case .nginx: #expect(text.contains(#""^/a[.]b[(]c[)][+]'d'&e,f=g:h@i~j!(?:/|$)""#))
        case .envoy: #expect(text.contains(#"prefix: "/a.b(c)+'d'&e,f=g:h@i~j!/""#))
        case .caddy: #expect(text.contains(#"^/a[.]b[(]c[)][+]'d'&e,f=g:h@i~j!([/?].*)?$"#))
        case .traefik: #expect(text.contains(#"`^/a[.]b[(]c[)][+]'d'&e,f=g:h@i~j!(/|$)`"#))
        case .haproxy: #expect(text.contains(#"path -m beg '/a.b(c)+'\''d'\''&e,f=g:h@i~j!/'"#))
        }
        #expect(proxy == .envoy || text.contains("a_b_c_d_1"))
    }

    @Test(arguments: [ExportedProxy.nginx, .caddy])
    func whatASyntaxCannotSayIsAnError(_ proxy: ExportedProxy) {
        var fixture = ExportFixture()
        fixture.add("dollar", upstreamPath: "/v$2")
        let problem = fixture.problem(proxy)
        #expect(problem?.hasPrefix("routes.dollar.upstream: ") == true, "\(problem ?? "")")
        #expect(problem?.contains(#""$""#) == true)
    }

    @Test(arguments: ExportedProxy.allCases)
    func filesWithOtherCharactersAreRefused(_ proxy: ExportedProxy) {
        var fixture = ExportFixture()
        fixture.add("box") { $0.tls.caPath = "/etc/ca\";\nproxy_pass evil" }
        #expect(fixture.problem(proxy)?.hasPrefix("routes.box.tls.ca: ") == true)
        var named = ExportFixture()
        named.add("box") { $0.headers.remove = ["X-$evil"] }
        #expect(named.problem(proxy)?.hasPrefix("routes.box: the field name") == true)
    }

    // MARK: Problems

    @Test func problemsSayWhereWhatAndWhatToDo() {
        let box = Self.box()
        #expect(box.problem(.nginx, contracts: [.envoy])?.contains("add one") == true)
        #expect(box.problem(.nginx, contracts: [.nginx, .nginx])?.contains("--engine") == true)
        #expect(box.problem(.nginx, engine: "edge2", contracts: [.nginx, .nginx])?.contains("authz: [edge2]") == true)
        #expect(box.problem(.nginx, engine: "egde")?.contains("did you mean \"edge\"?") == true)
        #expect(box.problem(.nginx, engine: "edge", contracts: [.envoy])?.contains("nginx needs `nginx`") == true)
        #expect(box.problem(.nginx, routes: ["bax"])?.contains("did you mean \"box\"?") == true)
        #expect(box.problem(.nginx, listen: "8000")?.hasPrefix("--listen: ") == true)
        #expect(box.problem(.nginx, listen: "a;b:1")?.hasPrefix("--listen: ") == true)
        var closed = ExportFixture()
        closed.add("box") { $0.authz = [] }
        #expect(closed.problem(.caddy)?.contains("authz: [edge]") == true)
        #expect(closed.problem(.caddy, routes: ["box"])?.hasPrefix("routes.box.authz: ") == true)
    }

    @Test func whatAProxyCannotDoIsRefused() {
        func problem(_ change: @escaping (inout RoutePlan) -> Void) -> String? {
            var fixture = ExportFixture()
            fixture.add("box", change: change)
            return fixture.problem(.nginx)
        }
        #expect(problem { $0.upstreamProtocol = .http2 }?.hasPrefix("routes.box.protocol: ") == true)
        #expect(problem { $0.allowsConnectionAuth = true }?.hasPrefix("routes.box.connection_auth: ") == true)
        #expect(problem { $0.tls.certificatePath = "/c" }?.hasPrefix("routes.box.tls.certificate: ") == true)
        #expect(problem { $0.credential = nil }?.hasPrefix("routes.box.auth: ") == true)
        var query = ExportFixture()
        query.add(
            "box",
            behavior: .fixed(Injection(query: Injection.QueryParameter(name: "key", value: Secret("x"))))
        )
        #expect(query.problem(.envoy)?.contains("into the URL") == true)
    }
}
