import Foundation
import GatewayHTTP
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

@Suite(.timeLimit(.minutes(5)))
struct AdmissionTests {
    private static var oneClient: AccessPlan {
        AccessPlan(
            clients: [.init(name: "laptop", proof: .token(Secret("client-token")))],
            allowedOrigins: [],
            requireClient: .auto
        )
    }

    @Test(arguments: [
        ("GET /api HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET /api HTTP/1.1\r\nHost: localhost:1\r\n\r\n", 421),
        ("GET /api HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n", 403),
        ("GET /api HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403),
        ("GET /api HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: none\r\n\r\n", 200),
        ("GET /apix HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("GET /x HTTP/1.1\r\nHost: api.localhost\r\n\r\n", 200),
        ("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET /api/../x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /api/%2e%2e/x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /api/a%2fb HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("GET /api/%ff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /api/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("TRACE /api HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ("GET /api HTTP/1.1\r\n\r\n", 400),
        ("GET /api HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        ("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST /api HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n\r\n", 400),
        ("GET /api HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n", 400),
        ("GET /api HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n", 400),
        ("GET /api HTTP/1.1\nHost: localhost\n\n", 400),
        ("GET /api HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        ("GET /api HTTP/1.1\r\nHost: localhost\r\nAuthorization_: x\r\nX-A: y\r\n\r\n", 200),
        ("GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: authorization\r\n\r\n", 400),
    ])
    func aRequestIsJudgedByItsHead(_ request: String, _ status: Int) async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin, source: ScriptedSource()) { proxy in
            let answer = try proxy.exchange(request)
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "), "\(answer.head)\(answer.body)")
            #expect(origin.requests.count == (status == 200 ? 1 : 0))
            if status != 200 { #expect(answer.body.hasPrefix("{\"type\":\"urn:authgateway:problem:")) }
        }
    }

    @Test func theAbsoluteFormReachesTheUpstreamItNames() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin, source: ScriptedSource()) { proxy in
            let target = "127.0.0.1:\(origin.port)"
            let answer = try proxy.exchange("GET http://\(target)/a?b HTTP/1.1\r\nHost: \(target)\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 200"))
            #expect(origin.requests[0].hasPrefix("GET /a?b HTTP/1.1\r\nHost: \(target)\r\n"))
        }
    }

    @Test func aClientTokenIsAskedForAcceptedInItsSlotsAndStripped() async throws {
        let origin = try RawOrigin.answering()
        let access = Self.oneClient
        try await withProxy(origin, source: nil, access: access) { proxy in
            let request = "GET /api HTTP/1.1\r\nHost: localhost\r\n"
            let refused = try proxy.exchange(request + "\r\n")
            #expect(refused.head.hasPrefix("HTTP/1.1 401") && refused.head.contains("WWW-Authenticate: Bearer"))
            let wrong = try proxy.exchange(request + "Authorization: Bearer wrong\r\n\r\n")
            #expect(wrong.head.contains("WWW-Authenticate: Bearer realm=\"authgateway\", error=\"invalid_token\"\r\n"))
            for field in [
                "Authorization: Bearer client-token", "Proxy-Authorization: Bearer client-token",
                "Proxy-Authorization: Basic bGFwdG9wOmNsaWVudC10b2tlbg==",
            ] {
                try #expect(proxy.exchange(request + field + "\r\n\r\n").head.hasPrefix("HTTP/1.1 200"))
            }
            #expect(origin.requests.count == 3)
            #expect(origin.requests.allSatisfy { !$0.lowercased().contains("authorization") })
            #expect(proxy.observer.denials == [.clientAuthRequired, .clientAuthRequired])
            #expect(proxy.observer.uses.last?.client == "laptop")
        }
    }

    @Test func aClientIsKnownByItsFieldAgainUntilItBringsAnother() async throws {
        let origin = try RawOrigin.answering()
        let digested = Mutex<[String]>([])
        let digest: @Sendable ([UInt8]) -> [UInt8] = { token in
            digested.withLock { $0.append(String(decoding: token, as: UTF8.self)) }
            return token
        }
        try await withProxy(origin, access: Self.oneClient, sha256: digest) { proxy in
            let client = try proxy.client()
            digested.withLock { $0 = [] }
            func status(_ field: String) -> String? {
                client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n\r\n")
                return client.readMessage().map { String($0.head.dropFirst(9).prefix(3)) }
            }
            let right = "Authorization: Bearer client-token"
            for _ in 0..<3 { #expect(status(right) == "200") }
            #expect(digested.withLock { $0 } == ["client-token"])
            let wrong = ["client-tokeN", "Client-token", "client-toke", "client-token2", "client-token client-token"]
            for token in wrong { #expect(status("Authorization: Bearer \(token)") == "401", "\(token)") }
            #expect(status("X-Other: Bearer client-token") == "401")
            #expect(status(right) == "200")
            #expect(status("Proxy-Authorization: Bearer client-token") == "200")
            #expect(digested.withLock { $0 } == ["client-token"] + wrong)
            #expect(proxy.observer.uses.filter { $0.client == "laptop" }.count == 5)
            client.close()
        }
    }

    @Test func aRefusedRequestIsRecordedWithTheClientThatSentIt() async throws {
        let origin = try RawOrigin.answering()
        let access = Self.oneClient
        try await withProxy(origin, source: nil, access: access) { proxy in
            func status(_ path: String, _ fields: String...) throws -> String {
                let lines = ["GET \(path) HTTP/1.1", "Host: localhost", "Authorization: Bearer client-token"] + fields
                let answer = try proxy.exchange(lines.joined(separator: "\r\n") + "\r\n\r\n")
                return String(answer.head.dropFirst(9).prefix(3))
            }
            try #expect(status("/api") == "200")
            let via = try #require(origin.requests[0].components(separatedBy: "\r\n").first { $0.hasPrefix("Via: ") })
            try #expect(status("/api", via) == "502")
            try #expect(status("/api/%zz") == "400")
            try #expect(status("/nowhere") == "404")
            #expect(proxy.observer.uses.map(\.client) == ["laptop", "laptop", "laptop", "laptop"])
        }
    }

    @Test func aClientTokenIsAcceptedWhereTheSDKPutsItsKeyAndReplacedThere() async throws {
        let access = Self.oneClient
        let inField = Injection(fields: [.init(name: "X-Api-Key", value: Secret("real"))])
        let origin = try RawOrigin.answering()
        let source = FixedCredentialSource(name: "key", strategy: "header", injection: inField)
        try await withProxy(origin, source: source, access: access) { proxy in
            let request = "GET /api HTTP/1.1\r\nHost: localhost\r\nx-api-key: client-token\r\n\r\n"
            try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 200"))
            #expect(origin.requests[0].contains("X-Api-Key: real\r\n"))
            #expect(!origin.requests[0].contains("client-token"))
        }
        let inQuery = Injection(query: .init(name: "key", value: Secret("real&")))
        let other = try RawOrigin.answering()
        let querySource = FixedCredentialSource(name: "key", strategy: "header", injection: inQuery)
        try await withProxy(other, source: querySource, access: access) { proxy in
            let request = "GET /api?a=1&key=client-token&b=2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
            try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 200"))
            #expect(other.requests[0].hasPrefix("GET /?a=1&b=2&key=real%26 HTTP/1.1\r\n"))
        }
    }

    /// Some upstreams take `;` for an end as `&` is; to all others it is a part of the value that must stay.
    @Test(arguments: [
        ("?a=1;key=mine", "?a=1&key=ours"), ("?key=mine;a=1", "?a=1&key=ours"),
        ("?a=1;2;3&b=4", "?a=1;2;3&b=4&key=ours"), ("?a=1;key=mine;b=2&k%65y=3", "?a=1;b=2&key=ours"),
        ("?key=mine;key=mine", "?key=ours"), ("?;;a", "?;;a&key=ours"),
    ])
    func anInjectedParameterIsTheOnlyOneOfItsName(_ query: String, _ sent: String) async throws {
        let origin = try RawOrigin.answering()
        let injection = Injection(query: .init(name: "key", value: Secret("ours")))
        let source = FixedCredentialSource(name: "key", strategy: "header", injection: injection)
        try await withProxy(origin, source: source) { proxy in
            let answer = try proxy.exchange("GET /api/x\(query) HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 200"))
            let line = origin.requests.first?.prefix { $0 != "\r\n" }
            #expect(line == "GET /x\(sent) HTTP/1.1")
        }
    }

    @Test func aPersonWhoAsksForTextGetsText() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin) { proxy in
            let answer = try proxy.exchange("GET /x HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n")
            #expect(answer.head.contains("Content-Type: text/plain; charset=utf-8\r\n"))
            #expect(answer.body.hasPrefix("No route matches (no-route)\n"))
        }
    }

    @Test func allowRulesAreMatchedOnWhatIsForwarded() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin) { route in
            route.allow = [.init(methods: ["GET"], path: PathPattern("/public/**") ?? PathPattern.all)]
        } _: { proxy in
            func status(_ line: String) throws -> String {
                String(try proxy.exchange("\(line) HTTP/1.1\r\nHost: localhost\r\n\r\n").head.dropFirst(9).prefix(3))
            }
            try #expect(status("GET /api/public/a") == "200")
            try #expect(status("POST /api/public/a") == "403")
            try #expect(status("GET /api/private") == "403")
            try #expect(status("GET /api/public//a") == "400")
            try #expect(status("GET /api/public/a;b") == "400")
            try #expect(status("GET /api/public/%252e") == "400")
        }
    }

    private static let overrides = [
        ("/api/a", "X-HTTP-Method-Override: DELETE"), ("/api/a", "x-http-method: DELETE"),
        ("/api/a", "X_Method_Override: DELETE"), ("/api/a", "X-Original-URL: /admin"),
        ("/api/a", "X-Rewrite-Url: /admin"),
        ("/api/a?_method=DELETE", "X-Other: 1"), ("/api/a?b&%5Fmethod=DELETE", "X-Other: 1"),
        ("/api/a?b;_method=DELETE", "X-Other: 1"), ("/api/a?_method[]=DELETE", "X-Other: 1"),
        ("/api/a?.method=DELETE", "X-Other: 1"), ("/api/a?%2Emethod=DELETE", "X-Other: 1"),
        ("/api/a?+.method=DELETE", "X-Other: 1"), ("/api/a?_METHOD=DELETE", "X-Other: 1"),
        ("/api/a?.Method[]=DELETE", "X-Other: 1"),
    ]

    /// Some frameworks execute what these name; the rules have judged what the request line names.
    @Test(arguments: overrides)
    func aRequestThatAsksForAnotherOperationIsRefusedWhereRulesDecide(_ target: String, _ field: String) async throws {
        let origin = try RawOrigin.answering()
        let request = "GET \(target) HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n\r\n"
        try await withProxy(origin) { route in
            route.allow = [.init(methods: ["GET"], path: PathPattern.all)]
        } _: { proxy in
            let answer = try proxy.exchange(request)
            #expect(
                answer.head.hasPrefix("HTTP/1.1 403") && answer.body.contains("another operation"),
                "\(answer.body)"
            )
            #expect(origin.requests.isEmpty)
            let plain = try proxy.exchange("GET /api/a?method=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(plain.head.hasPrefix("HTTP/1.1 200"))
        }
        try await withProxy(RawOrigin.answering()) { proxy in
            try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 200"))
        }
    }

    @Test func aRouteThatNamesClientsAsksForOne() async throws {
        let origin = try RawOrigin.answering()
        let access = AccessPlan(
            clients: ["laptop", "other"].map { .init(name: $0, proof: .token(Secret("\($0)-token"))) },
            allowedOrigins: [],
            requireClient: .false
        )
        try await withProxy(origin, access: access) { route in
            route.clients = ["laptop"]
        } _: { proxy in
            func answer(_ field: String, _ target: String = "/api", host: String = "localhost") throws -> String {
                try proxy.exchange("GET \(target) HTTP/1.1\r\nHost: \(host)\r\n\(field)\r\n\r\n").head
            }
            let anonymous = try answer("X-Other: 1")
            #expect(anonymous.hasPrefix("HTTP/1.1 401") && anonymous.contains("WWW-Authenticate: Bearer"))
            #expect(!anonymous.contains("invalid_token"))
            let unknown = try answer("Authorization: Bearer wrong")
            #expect(unknown.hasPrefix("HTTP/1.1 401") && unknown.contains("error=\"invalid_token\""))
            let upstream = "127.0.0.1:\(origin.port)"
            let asProxy = try answer("X-Other: 1", "http://\(upstream)/", host: upstream)
            #expect(asProxy.hasPrefix("HTTP/1.1 407") && asProxy.contains("Proxy-Authenticate: Basic"))
            try #expect(answer("Authorization: Bearer other-token").hasPrefix("HTTP/1.1 403"))
            try #expect(answer("Authorization: Bearer laptop-token").hasPrefix("HTTP/1.1 200"))
            #expect(origin.requests.count == 1)
        }
    }

    @Test func anUpstreamThatIsDownIsSaidToBe() async throws {
        let origin = try RawOrigin.answering()
        origin.stop()
        try await withProxy(origin) { proxy in
            let answer = try proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 502"))
            let hop = "next-hop=\"127.0.0.1:\(origin.port)\""
            #expect(answer.head.contains("Proxy-Status: authgateway; \(hop); error=connection_refused\r\n"))
            #expect(answer.body.contains("does not accept connections"))
        }
    }
}
