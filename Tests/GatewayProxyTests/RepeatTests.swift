import Testing

@testable import GatewayProxy

/// Which requests are sent again when the connection that they were given dies under them.
@Suite(.timeLimit(.minutes(5)))
struct RepeatTests {
    private static let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    /// So many requests are answered on its first connection; under the next one that dies after `bytes`, as do the other
    /// connections, up to this number of them, under their first.
    private func dying(afterAnswers answered: Int, connections: Int, sending bytes: String = "") throws -> RawOrigin {
        try RawOrigin { connection, number, origin in
            var left = number == 1 ? answered : number <= connections ? 0 : .max
            while let message = connection.readMessage() {
                origin.record(message.head + message.body)
                guard left > 0 else {
                    connection.send(bytes)
                    return connection.close()
                }
                left -= 1
                connection.send(Self.answer)
            }
        }
    }

    private func warm(_ client: RawConnection) {
        client.send("GET /api/first HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(client.readMessage()?.body == "ok")
    }

    @Test func aGetIsSentAgainOnceOnly() async throws {
        let origin = try dying(afterAnswers: 1, connections: 2)
        try await withProxy(origin) { [self] proxy in
            let client = try proxy.client()
            warm(client)
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            try #expect(client.readToEnd(.closed).hasPrefix("HTTP/1.1 502 "))
            #expect(origin.requests.count == 3)
            #expect(origin.connections == 2)
            client.close()
        }
    }

    @Test func aGetThatAFreshConnectionFailsIsNotSentAgain() async throws {
        let origin = try dying(afterAnswers: 0, connections: 1)
        try await withProxy(origin) { proxy in
            try #expect(proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n").head.hasPrefix("HTTP/1.1 502 "))
            #expect(origin.requests.count == 1)
        }
    }

    @Test(arguments: ["H", "HTTP/1.1 20", "HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Le"])
    func nothingIsSentAgainWhenAByteOfAnAnswerHasCome(_ bytes: String) async throws {
        let origin = try dying(afterAnswers: 1, connections: 1, sending: bytes)
        try await withProxy(origin) { [self] proxy in
            let client = try proxy.client()
            warm(client)
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            try #expect(client.readToEnd(.closed).contains("HTTP/1.1 502 "))
            #expect(origin.requests.count == 2)
            client.close()
        }
    }

    @Test(arguments: [(1000, "200 OK", 3), (1001, "502 Bad Gateway", 2)])
    func aPutIsSentAgainWhileAllOfItIsHeld(_ size: Int, _ status: String, _ requests: Int) async throws {
        let origin = try dying(afterAnswers: 1, connections: 1)
        var limits = Limits()
        limits.replayBodyBytes = 1000
        try await withProxy(origin, limits: limits) { [self] proxy in
            let client = try proxy.client()
            warm(client)
            let body = String(repeating: "x", count: size)
            client.send("PUT /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(size)\r\n\r\n\(body)")
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 \(status)\r\n") == true)
            #expect(origin.requests.count == requests)
            #expect(origin.requests.dropFirst().allSatisfy { $0.hasSuffix("\r\n\r\n\(body)") })
            client.close()
        }
    }
}
