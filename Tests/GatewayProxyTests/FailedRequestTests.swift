import GatewayEvents
import GatewayHTTP
import Synchronization
import Testing

@testable import GatewayProxy

/// What the observer is told of requests that failed, and the name that each answer has.
@Suite(.timeLimit(.minutes(5)))
struct FailedRequestTests {
    private static func id(of head: String) -> String? {
        let lines = head.split(separator: "\r\n").filter { $0.lowercased().hasPrefix("gateway-request-id: ") }
        return lines.count == 1 ? String(lines[0].dropFirst("Gateway-Request-Id: ".utf8.count)) : nil
    }

    @Test func everyAnswerNamesItsRequest() async throws {
        let origin = try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head)
                connection.send(
                    "HTTP/1.1 103 Early Hints\r\nGateway-Request-Id: early\r\n\r\n"
                        + "HTTP/1.1 200 OK\r\nGateway-Request-Id: theirs\r\nX-Request-Id: kept\r\nRequest-Id: kept-too\r\n"
                        + "Content-Length: 2\r\n\r\nok"
                )
            }
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine\r\n\r\n")
            let early = try #require(client.readMessage()).head
            #expect(early.hasPrefix("HTTP/1.1 103") && !early.lowercased().contains("gateway-request-id"))
            let head = try #require(client.readMessage()).head
            let id = try #require(Self.id(of: head))
            #expect(head.contains("X-Request-Id: kept\r\n") && head.contains("Request-Id: kept-too\r\n"))
            #expect(origin.requests[0].contains("\r\nX-Request-Id: mine\r\n"))
            #expect(!origin.requests[0].lowercased().contains("gateway-request-id"))
            client.send("GET /nowhere HTTP/1.1\r\nHost: localhost\r\nGateway-Request-Id: forged\r\n\r\n")
            let refused = try #require(client.readMessage())
            let other = try #require(Self.id(of: refused.head))
            #expect(refused.body.contains("\"request_id\":\"\(other)\"") && other != id && other != "forged")
            client.close()
            let seen = proxy.observer.requests
            #expect(seen.map(\.requestID.description) == [id, other])
            #expect(seen.map(\.clientRequestID) == ["mine", nil])
            #expect(seen[0].failure == nil)
            let timings = seen[0].timings
            #expect(timings.credential != nil && timings.connection != nil && timings.response != nil)
            let broken = try proxy.exchange("GET / HTTP/1.1\r\nNo colon\r\n\r\n")
            #expect(Self.id(of: broken.head) != nil)
        }
    }

    @Test func anUpstreamThatIsDownIsAFailureAndNothingWasInjected() async throws {
        let origin = try RawOrigin.answering()
        origin.stop()
        let source = ScriptedSource()
        try await withProxy(origin, source: source) { proxy in
            _ = try proxy.exchange(
                "GET /api/users/42?secret=1 HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine\r\n\r\n"
            )
            let failure = try #require(proxy.observer.requests.first?.failure)
            #expect(failure.reason.description == "connection_refused" && !failure.isCut)
            #expect(failure.place == RequestPlace(peer: "127.0.0.1", host: "localhost", path: "/api/users/{id}"))
            #expect(failure.credential == "scripted" && failure.explanation?.contains("is it running?") == true)
            let request = proxy.observer.requests[0]
            #expect(request.clientRequestID == "mine" && request.status == 502)
            #expect(request.timings.credential != nil && request.timings.connection == nil)
            #expect(source.state.withLock { $0.events } == [])
        }
    }

    @Test func aCredentialIsInjectedOnceTheHeadHasLeft() async throws {
        let origin = try RawOrigin.answering()
        let source = ScriptedSource()
        try await withProxy(origin, source: source) { proxy in
            for _ in 0..<3 { _ = try proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n") }
            _ = try proxy.exchange("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi")
            #expect(source.state.withLock { $0.events } == ["injected 1"])
        }
    }

    @Test func aCredentialThatDoesNotComeIsAFailure() async throws {
        let origin = try RawOrigin.answering()
        let source = ScriptedSource {
            $0.failure = GatewayProblem(.loginRequired, "Log in.", command: "authgateway login x")
        }
        try await withProxy(origin, source: source) { proxy in
            _ = try proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let failure = try #require(proxy.observer.requests.first?.failure)
            #expect(failure.reason.description == "login-required" && failure.command == "authgateway login x")
            #expect(source.state.withLock { $0.events } == ["withheld 0"])
        }
    }

    @Test(
        arguments: [
            (500, "upstream_status"), (503, "upstream_status"), (401, "credential_rejected"), (403, nil), (404, nil),
            (200, nil),
        ] as [(Int, String?)]
    )
    func aResponseOfTheUpstreamIsAFailureByItsStatus(_ status: Int, _ reason: String?) async throws {
        let origin = try RawOrigin { connection, _, _ in
            while connection.readMessage() != nil {
                connection.send("HTTP/1.1 \(status) x\r\nContent-Length: 0\r\n\r\n")
            }
        }
        try await withProxy(origin, source: ScriptedSource()) { proxy in
            let answer = try proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status)"))
            let request = try #require(proxy.observer.requests.first)
            #expect(request.failure?.reason.description == reason)
            #expect(request.problem == nil && request.status == status)
        }
    }

    @Test func aResponseThatIsCutIsAFailure() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
            connection.close()
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            _ = try client.readToEnd(.reset)
            client.close()
            let request = try #require(proxy.observer.requests.first)
            #expect(request.failure?.reason.description == "connection_lost" && request.failure?.isCut == true)
            #expect(request.status == 200 && request.problem == .upstreamUnreachable)
        }
    }

    @Test func requestsThatWereRefusedSayWhereTheyCameFrom() async throws {
        let origin = try RawOrigin.answering()
        let client = AccessPlan.Client(name: "laptop", proof: .token(Secret("laptop-token")))
        let access = AccessPlan(clients: [client], allowedOrigins: [], requireClient: .true)
        try await withProxy(origin, access: access) { proxy in
            _ = try proxy.exchange("GET /api/7 HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a.b\r\n\r\n")
            _ = try proxy.exchange("GET /x HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n")
            _ = try proxy.exchange("GET / HTTP/9.9\r\n\r\n")
            let requests = proxy.observer.requests
            #expect(requests.map(\.problem) == [.clientAuthRequired, .misdirected, .versionNotSupported])
            #expect(requests.map(\.clientRequestID) == ["a.b", nil, nil])
            #expect(requests.map { $0.failure?.place.peer } == ["127.0.0.1", "127.0.0.1", "127.0.0.1"])
            #expect(requests.map { $0.failure?.place.path } == ["/api/{id}", "/x", ""])
            #expect(requests[1].failure?.place.host == "elsewhere.example")
        }
    }
}
