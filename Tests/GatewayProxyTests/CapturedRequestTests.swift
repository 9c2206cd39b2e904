import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

/// Requests to an authorization server whose logins are captured, and requests with phantoms.
@Suite("Captured requests", .timeLimit(.minutes(5)))
struct CapturedRequestTests {
    private static let credential = CapturedCredential(name: "me", key: CredentialKey(digest: "k"))
    private static let phantom = "agp_a_" + String(repeating: "0a", count: 32)

    /// Admits one phantom, and answers with what it was asked.
    private final class Captures: CaptureControl {
        let asked = Mutex<[String]>([])
        /// Never answers.
        let isSilent: Bool

        init(isSilent: Bool = false) { self.isSilent = isSilent }

        func admits(_ phantom: [UInt8], of client: String?, to credential: CapturedCredential) -> Bool {
            phantom.elementsEqual(CapturedRequestTests.phantom.utf8) && client == nil
                && credential == CapturedRequestTests.credential
        }

        func answer(_ message: CapturedMessage, _ done: @escaping @Sendable (OAuthAnswer) -> Void) {
            let body = message.body.withValue { String(decoding: $0, as: UTF8.self) }
            asked.withLock { $0.append("\(message.endpoint.rawValue) \(body)") }
            if !isSilent { done(OAuthAnswer(Secret("{\"answer\":1}\n"))) }
        }
    }

    private func origin() throws -> RawOrigin {
        try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head + message.body)
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
    }

    private static func point(_ path: String, _ kind: CapturedRequest.Endpoint) throws -> CapturePoint {
        CapturePoint(
            credential: credential,
            kind: kind,
            endpoint: AuthorityEndpoint(try AuthorityURL("http://127.0.0.1\(path)"))
        )
    }

    /// - Parameter isAuthority: Whether the route leads to the authorization server, or else has the credential.
    private func withRoute(
        isAuthority: Bool,
        _ captures: Captures = Captures(),
        _ body: @escaping @Sendable (ProxyFixture, RawOrigin) throws -> Void
    ) async throws {
        let origin = try origin()
        let points = try [Self.point("/o/token/", .token), Self.point("/o/revoke", .revocation)]
        try await withProxy(
            origin,
            source: isAuthority ? nil : ScriptedSource(),
            adjust: { configuration in
                configuration.captures = captures
                if isAuthority {
                    configuration.routes[0].capturePoints = points
                } else {
                    configuration.routes[0].captured = Self.credential
                }
            }
        ) { proxy in
            try body(proxy, origin)
        }
    }

    private static func post(_ path: String, _ body: String, _ fields: String = "") -> String {
        "POST /api\(path) HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded; charset=utf-8\r\n"
            + "\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    @Test func theAuthorizationServerIsNotAsked() async throws {
        let captures = Captures()
        try await withRoute(isAuthority: true, captures) { proxy, origin in
            for path in ["/o/token/", "/o/token", "/O/Token/", "//o/token/", "/o/%74oken/", "/o/token;x/"] {
                let answer = try proxy.exchange(Self.post(path, "a=b"))
                let isAnswered = answer.head.hasPrefix("HTTP/1.1 200 ") && answer.body == "{\"answer\":1}\n"
                #expect(isAnswered || answer.head.hasPrefix("HTTP/1.1 400 "), "\(path): \(answer.head)")
            }
            let answer = try proxy.exchange(Self.post("/o/revoke", "token=x"))
            #expect(answer.head.contains("Content-Type: application/json") && answer.head.contains("no-store"))
            #expect(!answer.head.contains("Proxy-Status"))
            #expect(origin.requests == [])
            try #expect(proxy.exchange(Self.post("/o/other", "a=b")).body == "ok")
        }
        let asked = captures.asked.withLock(\.self)
        #expect(asked.contains("token_url a=b") && asked.last == "revoke_url token=x")
    }

    @Test func aBodyInChunksIsReadWhole() async throws {
        let captures = Captures()
        try await withRoute(isAuthority: true, captures) { proxy, _ in
            let head =
                "POST /api/o/token/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            let answer = try proxy.exchange(
                "\(head)Transfer-Encoding: chunked\r\n\r\n2\r\na=\r\n1\r\nb\r\n0\r\n\r\n"
            )
            #expect(answer.head.hasPrefix("HTTP/1.1 200 "))
        }
        #expect(captures.asked.withLock(\.self) == ["token_url a=b"])
    }

    @Test func aFormInChunksThatIsTooLongIsRefused() async throws {
        let captures = Captures()
        try await withRoute(isAuthority: true, captures) { proxy, origin in
            let head =
                "POST /api/o/token/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            let form = String(repeating: "a", count: CapturedRequest.maximumBody + 1)
            let size = String(form.utf8.count, radix: 16)
            let answer = try proxy.exchange(
                "\(head)Transfer-Encoding: chunked\r\n\r\n\(size)\r\n\(form)\r\n0\r\n\r\n"
            )
            #expect(answer.head.hasPrefix("HTTP/1.1 400 "), "\(answer.head)")
            #expect(answer.body.contains("invalid_request") && answer.body.contains("limits.replay_body_bytes"))
            #expect(origin.requests == [])
        }
        #expect(captures.asked.withLock(\.self) == [])
    }

    @Test func whatIsNoFormIsRefused() async throws {
        let captures = Captures()
        try await withRoute(isAuthority: true, captures) { proxy, origin in
            let json =
                "POST /api/o/token/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
            let refused = [
                "GET /api/o/token/ HTTP/1.1\r\nHost: localhost\r\n\r\n", json, Self.post("/o/token/?a=b", "a=b"),
                Self.post("/o/token/", "a=b", "Content-Encoding: gzip\r\n"),
                Self.post("/o/token/", "a=b", "DPoP: x\r\n"),
                Self.post("/o/token/", "a=b", "Authorization: Basic eA==\r\nAuthorization: Basic eA==\r\n"),
                Self.post("/o/token/", String(repeating: "a", count: CapturedRequest.maximumBody + 1)),
            ]
            for request in refused {
                let answer = try proxy.exchange(request)
                #expect(answer.head.hasPrefix("HTTP/1.1 400 "), "\(answer.head)")
                #expect(answer.body.contains("\"error\":\"invalid_request\""), "\(answer.body)")
            }
            try #expect(
                proxy.exchange(Self.post("/o/x", "a=b", "X-Original-URL: /o/token/\r\n")).head.hasPrefix(
                    "HTTP/1.1 403 "
                )
            )
            #expect(origin.requests == [])
        }
        #expect(captures.asked.withLock(\.self) == [])
    }

    @Test func aPhantomBecomesTheToken() async throws {
        try await withRoute(isAuthority: false) { proxy, origin in
            let request = "GET /api/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(Self.phantom)\r\n\r\n"
            try #expect(proxy.exchange(request).body == "ok")
            #expect(origin.requests.count == 1 && origin.requests[0].contains("Authorization: Bearer token-1"))
            #expect(!origin.requests[0].contains("agp_"))
        }
    }

    @Test func withoutAPhantomThereIsNoToken() async throws {
        try await withRoute(isAuthority: false) { proxy, origin in
            let other = String(Self.phantom.dropLast()) + "b"
            let fields = [
                "", "Authorization: Bearer \(other)\r\n", "Authorization: \(Self.phantom)\r\n",
                "X-Token: \(Self.phantom)\r\n", "Authorization: Bearer real\r\n",
                "Authorization: Bearer \(Self.phantom), x\r\n",
                "Authorization: Bearer \(Self.phantom)\r\nAuthorization: Bearer \(Self.phantom)\r\n",
            ]
            for field in fields {
                let answer = try proxy.exchange("GET /api/x HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n")
                #expect(answer.head.hasPrefix("HTTP/1.1 401 "), "\(field): \(answer.head)")
                #expect(answer.head.contains("error=\"invalid_token\""))
            }
            #expect(origin.requests == [])
        }
    }

    @Test(arguments: [true, false])
    func aPhantomElsewhereIsRefused(isAuthority: Bool) async throws {
        try await withRoute(isAuthority: isAuthority) { proxy, origin in
            let bearer = isAuthority ? "" : "Authorization: Bearer \(Self.phantom)\r\n"
            let requests = [
                "GET /api/x?access_token=\(Self.phantom) HTTP/1.1\r\nHost: localhost\r\n\(bearer)\r\n",
                "GET /api/\(Self.phantom) HTTP/1.1\r\nHost: localhost\r\n\(bearer)\r\n",
                "GET /api/x HTTP/1.1\r\nHost: localhost\r\nX-Token: a \(Self.phantom.uppercased())\r\n\(bearer)\r\n",
            ]
            for request in requests {
                try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 403 "))
            }
            if isAuthority {
                let request = "GET /api/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(Self.phantom)\r\n\r\n"
                try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 403 "))
            }
            #expect(origin.requests == [])
        }
    }

    @Test func aClientThatLeavesIsForgotten() async throws {
        let captures = Captures(isSilent: true)
        try await withRoute(isAuthority: true, captures) { proxy, _ in
            let client = try proxy.client()
            client.send(Self.post("/o/token/", "a=b"))
            try blockUntil("the login is asked for") { captures.asked.withLock { !$0.isEmpty } }
            client.close()
            try blockUntil("the request is over") { proxy.observer.requests.count == 1 }
        }
    }
}
