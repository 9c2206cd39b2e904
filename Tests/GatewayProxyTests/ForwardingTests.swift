import Dispatch
import Foundation
import Testing

@testable import GatewayProxy

@Suite(.timeLimit(.minutes(5)))
struct ForwardingTests {
    @Test func aRequestLeavesWithTheCredentialAndWithoutTheClientsOwn() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin, source: ScriptedSource()) { proxy in
            let answer = try proxy.exchange(
                "GET /api/items?a=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nauthorization: Bearer mine\r\nX-Kept: yes\r\n"
                    + "Connection: keep-alive, x-hop\r\nX-Hop: gone\r\nProxy-Connection: keep-alive\r\n\r\n"
            )
            #expect(answer.head.hasPrefix("HTTP/1.1 200 OK\r\n"))
            #expect(answer.body == "ok")
            let hop = "next-hop=\"127.0.0.1:\(origin.port)\""
            #expect(answer.head.contains("Proxy-Status: authgateway; \(hop); received-status=200\r\n"))
            let seen = origin.requests[0]
            #expect(seen.hasPrefix("GET /items?a=1 HTTP/1.1\r\nHost: 127.0.0.1:\(origin.port)\r\n"))
            #expect(seen.contains("\r\nAuthorization: Bearer token-1\r\n"))
            #expect(seen.contains("\r\nX-Kept: yes\r\n"))
            #expect(!seen.contains("mine") && !seen.lowercased().contains("x-hop") && !seen.contains("Proxy-"))
        }
    }

    @Test func aConnectionCarriesManyRequestsAndPipelinedOnesInOrder() async throws {
        let origin = try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head)
                let name = message.head.split(separator: " ")[1].dropFirst()
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(name.count)\r\n\r\n\(name)")
            }
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send(
                (1...20).map { "GET /api/r\($0) HTTP/1.1\r\nHost: localhost\r\n\r\n" }.joined()
            )
            for number in 1...20 { #expect(client.readMessage()?.body == "r\(number)") }
            #expect(origin.connections == 1)
            client.close()
        }
    }

    /// Small answers go straight to the socket until it is full; from then on the channel holds what follows.
    @Test func answersThatAClientTakesLateComeWholeAndInOrder() async throws {
        let origin = try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head)
                let digit = message.head.split(separator: " ")[1].last ?? "?"
                let body = String(repeating: digit, count: 15_000)
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 15000\r\n\r\n\(body)")
            }
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            let count = 200
            client.send((0..<count).map { "GET /api/\($0) HTTP/1.1\r\nHost: localhost\r\n\r\n" }.joined())
            let deadline = Date() + 1
            while origin.requests.count < 150, Date() < deadline { Thread.sleep(forTimeInterval: 0.001) }
            #expect(origin.requests.count < count, "nothing was held back: this test needs more answers")
            for number in 0..<count {
                #expect(client.readMessage()?.body == String(repeating: "\(number % 10)", count: 15_000))
            }
            client.close()
        }
    }

    @Test func aHeadThatDribblesInIsReadOnce() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            for byte in "GET /api HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\r\n".utf8 { client.send([byte]) }
            #expect(client.readMessage()?.body == "ok")
            #expect(origin.requests[0].hasPrefix("GET / HTTP/1.1\r\n"))
            client.close()
        }
    }

    @Test func bodiesPassInTheFramingTheyCameIn() async throws {
        let origin = try RawOrigin { connection, _, origin in
            guard let head = connection.read(through: "\r\n\r\n") else { return }
            let body = connection.read(through: "\r\nX-Sum: 1\r\n\r\n") ?? ""
            origin.record(head + body)
            connection.send(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Trailer: t\r\nContent-Length: 9\r\n\r\n"
            )
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send("POST /api HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.send("5;x=y\r\nhello\r\n0\r\nHost: evil\r\nAuthorization: stolen\r\nX-Sum: 1\r\n\r\n")
            let head = client.read(through: "\r\n\r\n") ?? ""
            #expect(head.contains("Transfer-Encoding: chunked\r\n"))
            #expect(client.read(through: "\r\n\r\n") == "3\r\nabc\r\n0\r\nX-Trailer: t\r\n\r\n")
            #expect(origin.requests[0].hasSuffix("5;x=y\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"))
            client.close()
        }
    }

    @Test func anHTTP10ClientGetsContentWithoutChunks() async throws {
        let origin = try RawOrigin.answering(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        )
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.0\r\n\r\n")
            let answer = try client.readToEnd(.closed)
            #expect(answer.hasSuffix("\r\n\r\nabcde"))
            #expect(!answer.lowercased().contains("transfer-encoding"))
        }
    }

    @Test func aBodyThatIsCutNeverLooksComplete() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.read(through: "\r\n\r\n")
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
            connection.close()
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let answer = try client.readToEnd(.reset)
            #expect(answer.contains("\r\nContent-Length: 100\r\n") && answer.hasSuffix("\r\n\r\nshort"))
        }
    }

    @Test func headAndEmptyStatusesHaveNoBody() async throws {
        let origin = try RawOrigin { connection, _, _ in
            while let head = connection.read(through: "\r\n\r\n") {
                connection.send(
                    head.hasPrefix("HEAD")
                        ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
                        : "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"
                )
            }
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send("HEAD /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(client.read(through: "\r\n\r\n")?.contains("Content-Length: 5") == true)
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(client.read(through: "\r\n\r\n")?.hasPrefix("HTTP/1.1 304") == true)
            client.close()
        }
    }

    @Test func anUpgradeBecomesATunnelWithTheCredentialOnItsHandshake() async throws {
        let origin = try RawOrigin { connection, _, origin in
            guard let head = connection.read(through: "\r\n\r\n") else { return }
            origin.record(head)
            connection.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            while let byte = connection.read(count: 4) { connection.send(byte) }
        }
        try await withProxy(origin, source: ScriptedSource()) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            let head = client.read(through: "\r\n\r\n") ?? ""
            #expect(head.hasPrefix("HTTP/1.1 101") && head.contains("Upgrade: echo\r\n"))
            client.send("ping")
            #expect(client.read(count: 4) == "ping")
            #expect(origin.requests[0].contains("Authorization: Bearer token-1\r\n"))
            client.close()
        }
    }

    @Test func anOfferOfClearTextHTTP2IsNotForwarded() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin) { proxy in
            let answer = try proxy.exchange(
                "GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                    + "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
            )
            #expect(answer.body == "ok")
            #expect(!origin.requests[0].lowercased().contains("upgrade"))
            #expect(!origin.requests[0].contains("HTTP2-Settings"))
        }
    }

    @Test func aClientThatLeavesTakesItsUpstreamRequestWithIt() async throws {
        let closed = DispatchSemaphore(value: 0)
        let asked = DispatchSemaphore(value: 0)
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.read(through: "\r\n\r\n")
            asked.signal()
            try connection.readToEnd(.closed)
            closed.signal()
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(asked.wait(timeout: .now() + 2) == .success)
            client.close()
            #expect(closed.wait(timeout: .now() + 1) == .success)
        }
    }

    @Test func aClientThatClosesItsHalfIsAnsweredWhenItSaidItWould() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            client.shutdownOutput()
            try #expect(client.readToEnd(.closed).hasSuffix("\r\n\r\nok"))
        }
    }

    @Test func anUpstreamThatStaysSilentIsGivenUp() async throws {
        let origin = try RawOrigin { connection, _, _ in try connection.readToEnd(.closed) }
        var limits = Limits()
        limits.responseTimeout = .milliseconds(100)
        try await withProxy(origin, limits: limits) { proxy in
            let answer = try proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 504"))
            #expect(answer.body.contains("upstream-timeout"))
        }
    }

    @Test func aRouteWaitsLongerThanTheOthersForItsUpstream() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.read(through: "\r\n\r\n")
            Thread.sleep(forTimeInterval: 0.3)
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
            Thread.sleep(forTimeInterval: 0.3)
            connection.send("k")
        }
        var limits = Limits()
        limits.responseTimeout = .milliseconds(100)
        try await withProxy(
            origin,
            limits: limits,
            route: { $0.timeouts = RoutePlan.Timeouts(response: .seconds(20), idle: .seconds(20)) }
        ) { proxy in
            let answer = try proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 200") && answer.body == "ok")
        }
    }

    @Test func theTwoTimeoutsOfARouteAreIndependent() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.read(through: "\r\n\r\n")
            Thread.sleep(forTimeInterval: 0.3)
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
            try connection.readToEnd(.closed)
        }
        try await withProxy(
            origin,
            route: { $0.timeouts = RoutePlan.Timeouts(response: .seconds(20), idle: .milliseconds(100)) }
        ) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try #expect(client.readToEnd(.reset).hasSuffix("\r\n\r\no"))
        }
    }

    @Test func slowHeadsBodiesAndIdleConnectionsAreCut() async throws {
        let origin = try RawOrigin.answering()
        var limits = Limits()
        limits.headerTimeout = .milliseconds(100)
        limits.bodyIdleTimeout = .milliseconds(100)
        limits.idleTimeout = .milliseconds(100)
        try await withProxy(origin, limits: limits) { proxy in
            let silent = try proxy.client()
            try #expect(silent.readToEnd(.closed).isEmpty)
            let slow = try proxy.client()
            slow.send("GET /api HT")
            try #expect(slow.readToEnd(.closed).hasPrefix("HTTP/1.1 408"))
            let stuck = try proxy.client()
            stuck.send("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
            try #expect(stuck.readToEnd(.closed).hasPrefix("HTTP/1.1 408"))
            let idle = try proxy.client()
            idle.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(idle.readMessage()?.body == "ok")
            try #expect(idle.readToEnd(.closed).isEmpty)
        }
    }

    @Test func connectionsOverTheLimitAreToldSo() async throws {
        let origin = try RawOrigin.answering()
        var limits = Limits()
        limits.connections = 1
        try await withProxy(origin, limits: limits) { proxy in
            let first = try proxy.client()
            first.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(first.readMessage()?.body == "ok")
            let second = try proxy.client()
            let answer = try second.readToEnd(.closed)
            #expect(answer.hasPrefix("HTTP/1.1 503") && answer.contains("Retry-After: 1\r\n"))
            first.close()
        }
    }

    /// Also those for whom there is no room to wait until they have read it.
    @Test func manyConnectionsOverTheLimitAreToldSo() async throws {
        let origin = try RawOrigin.answering()
        var limits = Limits()
        limits.connections = 1
        try await withProxy(origin, limits: limits) { proxy in
            let first = try proxy.client()
            first.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(first.readMessage()?.body == "ok")
            let others = try (0..<50).map { _ in try proxy.client() }
            for client in others {
                let answer = client.readMessage()
                #expect(answer?.head.hasPrefix("HTTP/1.1 503") == true)
                #expect(answer?.body.contains("limits.connections") == true)
                try #expect(client.readToEnd(.closed).isEmpty)
            }
            first.close()
        }
    }

    /// The process has more open than that already.
    @Test func aConnectionThatTakesFromTheReserveIsRefused() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin, descriptorLimit: 4) { proxy in
            let answer = try proxy.client().readMessage()
            #expect(answer?.head.hasPrefix("HTTP/1.1 503") == true)
            #expect(answer?.body.contains("ulimit -n") == true)
        }
    }

    @Test func moreConnectionsThanDescriptorsAreAnError() async throws {
        var limits = Limits()
        limits.connections = 1000
        await #expect(throws: ListenerError.self) {
            _ = try await ProxyFixture(upstreamPort: 1, limits: limits, descriptorLimit: 500)
        }
    }

    @Test func anEarlyAnswerReachesAClientThatIsStillSending() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.read(through: "\r\n\r\n")
            connection.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
            try connection.readToEnd(.closed)
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nstart")
            let answer = client.readMessage()
            #expect(answer?.head.hasPrefix("HTTP/1.1 413") == true)
            #expect(answer?.head.contains("Connection: close\r\n") == true)
            #expect(answer?.body == "big")
            client.close()
        }
    }

    @Test func interimResponsesPassOn() async throws {
        let origin = try RawOrigin { connection, _, origin in
            guard let head = connection.read(through: "\r\n\r\n") else { return }
            origin.record(head)
            connection.send("HTTP/1.1 100 Continue\r\n\r\n")
            _ = connection.read(count: 5)
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send(
                "POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
            )
            #expect(client.read(through: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
            client.send("hello")
            #expect(client.readMessage()?.body == "ok")
            #expect(origin.requests[0].contains("Expect: 100-continue\r\n"))
            client.close()
        }
    }
}
