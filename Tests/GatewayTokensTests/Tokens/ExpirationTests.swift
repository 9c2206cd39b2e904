import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite(.timeLimit(.minutes(5)))
struct ExpirationTests {
    private let now = UnixTime(seconds: 1_772_357_400)

    struct Case: CustomTestStringConvertible {
        let kind: Expiration.Kind
        var lifetime: Duration?
        let left: Duration
        let isSoon: Bool
        var testDescription: String { "\(kind) of \(lifetime.map { "\($0)" } ?? "unknown life"), \(left) left" }
    }

    private static let day = Duration.seconds(86_400)

    @Test(
        "time to act comes ahead of the end, and later for what lives shortly",
        arguments: [
            Case(kind: .token, lifetime: .seconds(3600), left: .seconds(601), isSoon: false),
            Case(kind: .token, lifetime: .seconds(3600), left: .seconds(600), isSoon: true),
            Case(kind: .login, lifetime: day * 60, left: day * 8, isSoon: false),
            Case(kind: .login, lifetime: day * 60, left: day * 7, isSoon: true),
            Case(kind: .login, lifetime: .seconds(1800), left: .seconds(1500), isSoon: false),
            Case(kind: .login, lifetime: .seconds(1800), left: .seconds(360), isSoon: true),
            Case(kind: .secret, left: day * 15, isSoon: false),
            Case(kind: .secret, left: day * 14, isSoon: true),
            Case(kind: .certificate, lifetime: day * 90, left: day * 15, isSoon: false),
            Case(kind: .certificate, lifetime: day, left: day / 2, isSoon: false),
            Case(kind: .certificate, lifetime: day, left: .seconds(-5), isSoon: true),
        ]
    )
    func timeToAct(_ one: Case) {
        let end = now + one.left
        let start = one.lifetime.map { end + .zero - $0 }
        let expiration = Expiration(one.kind, of: "x", from: start, to: end, at: now, action: "act")
        #expect(expiration.isSoon == one.isSoon)
        #expect(expiration.remainingSeconds == max(Int(one.left.components.seconds), 0))
        #expect(expiration.remainingSeconds > 0 || one.left <= .zero)
        #expect(expiration.endsAt == end.rfc3339)
    }

    /// Nothing has expired before its time, and what has expired has no time left.
    @Test(arguments: [(-60_000, 0), (-1, 0), (0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)])
    func theLastSecond(_ milliseconds: Int, _ seconds: Int) {
        let end = now + .milliseconds(milliseconds)
        let expiration = Expiration(.token, of: "x", from: nil, to: end, at: now, action: "act")
        #expect(expiration.remainingSeconds == seconds)
    }
}

extension UnixTime {
    fileprivate static func - (time: UnixTime, duration: Duration) -> UnixTime { time + (.zero - duration) }
}
