import Testing

@testable import GatewayHTTP
@testable import GatewayProxy
@testable import GatewayTesting

@Suite("The version of HTTP towards an upstream", .timeLimit(.minutes(1)))
struct UpstreamVersionRuleTests {
    private static let webSocket = [
        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    private static let other = ["Connection: Upgrade", "Upgrade: tcp"]

    struct Case: Sendable {
        let fields: [String]
        let version: UpstreamProtocol
        let lacksWebSocket: Bool
        let needsHTTP1: Bool
    }

    @Test(arguments: [
        Case(fields: [], version: .auto, lacksWebSocket: true, needsHTTP1: false),
        Case(fields: [], version: .http2, lacksWebSocket: true, needsHTTP1: false),
        Case(fields: webSocket, version: .auto, lacksWebSocket: false, needsHTTP1: false),
        Case(fields: webSocket, version: .auto, lacksWebSocket: true, needsHTTP1: true),
        // It fails with a message that names the key: the route asks for HTTP/2 alone.
        Case(fields: webSocket, version: .http2, lacksWebSocket: true, needsHTTP1: false),
        Case(fields: other, version: .auto, lacksWebSocket: false, needsHTTP1: true),
        Case(fields: other, version: .http2, lacksWebSocket: false, needsHTTP1: true),
    ])
    func onlyHTTP1CarriesSomeRequests(_ expected: Case) {
        let needsHTTP1 = HeadText.request(expected.fields) { head, bytes in
            UpstreamVersionRule.needsHTTP1(head, bytes, expected.version, lacksWebSocket: expected.lacksWebSocket)
        }
        #expect(needsHTTP1 == expected.needsHTTP1)
    }

    @Test(arguments: UpstreamProtocol.allCases)
    func onlyAutoFallsBack(_ version: UpstreamProtocol) {
        #expect(UpstreamVersionRule.mayFallBack(version) == (version == .auto))
    }

    @Test func aDemandForHTTP1HoldsForTenMinutes() {
        let start = MonotonicTime(nanoseconds: 7)
        var demand = HTTP1Fallback()
        var hasReadClock = false
        func now() -> MonotonicTime {
            hasReadClock = true
            return start
        }
        #expect(!demand.holds(at: now()) && !hasReadClock)
        demand.begin(at: start)
        #expect(demand.holds(at: now()) && hasReadClock)
        #expect(demand.holds(at: start + .seconds(599)) && !demand.holds(at: start + .seconds(600)))
        demand.begin(at: start + .seconds(300))
        #expect(demand.holds(at: start + .seconds(899)) && !demand.holds(at: start + .seconds(900)))
    }
}
