import GatewayEvents
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Logging
import Synchronization
import Testing

@testable import GatewayApp

@Suite(.timeLimit(.minutes(5)))
struct ExpirationMonitorTests {
    private let audit = RecordingAuditLog()
    private let clock = ManualClock()
    private let secretEnd: UnixTime

    init() { secretEnd = clock.now().wall + .seconds(15 * 86_400) }

    private func expirations() -> [Expiration] {
        let now = clock.now().wall
        return [
            Expiration(.token, of: "devbox", from: now, to: now + .seconds(5), at: now, action: "import"),
            Expiration(.secret, of: "service", from: nil, to: secretEnd, at: now, action: "new secret"),
        ]
    }

    @Test func anEndIsAnnouncedOnceAndAheadOfTime() async throws {
        let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let watch = ExpirationMonitor(expirations: { expirations() }, audit: audit, clock: clock, logger: quiet)
        let running = Task { try await watch.run() }
        try await clock.untilAsleep()
        #expect(audit.events.isEmpty, "15 days are time enough, and tokens are announced by their keepers")
        for _ in 0..<3 {
            clock.advance(by: .seconds(86_400))
            try await audit.untilRecorded(.expiringSoon)
            try await clock.untilAsleep()
        }
        running.cancel()
        try await running.value
        #expect(audit.count(of: .expiringSoon) == 1)
        let event = try #require(audit.last(.expiringSoon))
        #expect(event.credential == "service")
        #expect(event.expiresAt == secretEnd)
        #expect(event.detail["kind"] == "secret")
    }
}
