import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayProxy

/// Routes with `connection_auth: true`.
@Suite("Private connections to an upstream", .timeLimit(.minutes(5)))
struct PrivateConnectionTests {
    private static let twoClients = AccessPlan(
        clients: ["a", "b"].map { .init(name: $0, proof: .token(Secret("\($0)-token"))) },
        allowedOrigins: [],
        requireClient: .auto
    )

    /// Answers with the number of the connection.
    private func origin() throws -> RawOrigin {
        try RawOrigin { connection, number, origin in
            while let message = connection.readMessage() {
                let end = message.head.hasPrefix("GET /last ") ? "Connection: close\r\n" : ""
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\(end)\r\n\(number)")
                if !end.isEmpty { break }
            }
            connection.close()
            origin.record("end \(number)")
        }
    }

    private func ask(_ client: RawConnection, _ fields: String = "", path: String = "") -> String? {
        client.send("GET /api\(path) HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
        return client.readMessage()?.body
    }

    private func awaitEnd(_ number: Int, _ origin: RawOrigin) throws {
        try blockUntil("connection \(number) has ended") { origin.requests.contains("end \(number)") }
    }

    @Test func eachClientConnectionHasOneOfItsOwn() async throws {
        let origin = try origin()
        try await withProxy(origin) { route in
            route.allowsConnectionAuth = true
        } _: { [self] proxy in
            let (first, second) = (try proxy.client(), try proxy.client())
            let type1 = "Authorization: NTLM TlRMTVNTUAABAAAA\r\n"
            #expect(ask(first, type1) == "1")
            #expect(ask(second) == "2")
            #expect(ask(first) == "1")
            first.close()
            try awaitEnd(1, origin)
            let third = try proxy.client()
            #expect(ask(third) == "3")
            #expect(ask(second) == "2")
            // The upstream ends it: the next request gets another one.
            #expect(ask(second, path: "/last") == "2")
            try awaitEnd(2, origin)
            #expect(ask(second) == "4")
            // Of those that are left, the drain ends both.
        }
    }

    @Test func anotherClientOnTheSameConnectionGetsAnother() async throws {
        let origin = try origin()
        try await withProxy(origin, access: Self.twoClients) { route in
            route.allowsConnectionAuth = true
        } _: { [self] proxy in
            let client = try proxy.client()
            let (a, b) = ("Proxy-Authorization: Bearer a-token\r\n", "Proxy-Authorization: Bearer b-token\r\n")
            #expect(ask(client, a) == "1")
            #expect(ask(client, a) == "1")
            #expect(ask(client, b) == "2")
            try awaitEnd(1, origin)
            #expect(ask(client, a) == "3")
            client.close()
        }
    }

    @Test func itCountsAsAConnectionOfItsUpstream() async throws {
        let origin = try origin()
        var limits = Limits()
        limits.connectionsPerUpstream = 1
        limits.connectTimeout = .milliseconds(300)
        try await withProxy(origin, limits: limits) { route in
            route.allowsConnectionAuth = true
        } _: { [self] proxy in
            let (first, second) = (try proxy.client(), try proxy.client())
            #expect(ask(first) == "1")
            second.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(second.readMessage()?.head.hasPrefix("HTTP/1.1 503 ") == true)
            // Its last request.
            #expect(ask(first, "Connection: close\r\n") == "1")
            #expect(ask(second) == "2")
            first.close()
            second.close()
        }
    }
}
