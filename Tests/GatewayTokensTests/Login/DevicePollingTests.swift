import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("Polls of a login on another device", .timeLimit(.minutes(5)))
struct DevicePollingTests {
    private static let start = MonotonicTime(nanoseconds: 1_000_000_000)
    private static let token = TokenSet(access: Secret("T"), obtainedAt: UnixTime(seconds: 0))

    private var polling = DevicePolling(
        DeviceCode(
            deviceCode: Secret("D"),
            userCode: "AB-12",
            page: "https://id.example.com/go",
            lifetime: .seconds(900),
            interval: .seconds(7)
        ),
        until: start + .seconds(100)
    )

    private static func failure(_ words: String = "The authority refuses connections.") -> TokenFailure {
        let problem = GatewayProblem(.tokenEndpointUnreachable, words, cause: GatewayProblem.Cause(code: "busy"))
        return TokenFailure(.transient(retryAfter: nil), problem: problem)
    }

    private mutating func next(_ event: DevicePolling.Event, after seconds: Int = 0) -> DevicePolling.Step {
        polling.next(event, at: Self.start + .seconds(seconds))
    }

    private mutating func end(_ event: DevicePolling.Event, after seconds: Int = 0) throws -> DevicePolling.End {
        guard case .end(let end) = next(event, after: seconds) else { throw Continues() }
        return end
    }

    private struct Continues: Error {}

    @Test mutating func theGatewayWaitsThenAsksThenTakesTheToken() {
        #expect(next(.started) == .wait(.seconds(7)))
        #expect(next(.waited, after: 7) == .ask)
        #expect(next(.answered(.pending), after: 8) == .wait(.seconds(7)))
        #expect(next(.answered(.token(Self.token)), after: 15) == .take(Self.token))
    }

    @Test mutating func slowDownAddsFiveSecondsForGood() {
        #expect(next(.answered(.slowDown)) == .wait(.seconds(12)))
        #expect(next(.answered(.pending)) == .wait(.seconds(12)))
        #expect(next(.answered(.slowDown)) == .wait(.seconds(17)))
    }

    @Test mutating func failuresDoubleThePauseUpToAMinute() {
        #expect(next(.answered(.unclear(Self.failure()))) == .wait(.seconds(14)))
        #expect(next(.unanswered(Self.failure(), because: .responseTimeout)) == .wait(.seconds(28)))
        for _ in 0..<3 { _ = next(.unanswered(Self.failure(), because: .responseTimeout)) }
        #expect(next(.answered(.pending)) == .wait(.seconds(60)))
        #expect(next(.answered(.slowDown)) == .wait(.seconds(65)))
        #expect(next(.answered(.unclear(Self.failure()))) == .wait(.seconds(65)))
    }

    @Test mutating func aPauseEndsAtTheDeadline() throws {
        #expect(next(.answered(.pending), after: 97) == .wait(.seconds(3)))
        let end = try end(.waited, after: 100)
        #expect(end.problem.detail == "The code was not entered in time. Nothing was changed; begin a new login.")
        #expect(end.reason == "timeout" && end.code == nil)
        #expect(try self.end(.answered(.pending), after: 101).reason == "timeout")
    }

    @Test mutating func atTheDeadlineTheLastFailureIsSaid() throws {
        _ = next(.unanswered(Self.failure(), because: .connectionRefused), after: 90)
        let end = try end(.waited, after: 100)
        #expect(end.problem.kind == .tokenEndpointUnreachable)
        #expect(
            end.problem.detail.hasPrefix("The authority refuses connections. The code has expired in the meantime.")
        )
        #expect(end.reason == "no_answer" && end.code == "connection_refused")
    }

    @Test mutating func anAnswerThatIsOfNoUseIsAFailureToo() throws {
        _ = next(.answered(.unclear(Self.failure("The authorization server is busy."))), after: 90)
        let end = try end(.waited, after: 100)
        #expect(end.problem.detail.hasPrefix("The authorization server is busy.") && end.code == "busy")
    }

    @Test mutating func aFailureThatPassedIsNotSaid() throws {
        _ = next(.unanswered(Self.failure(), because: .connectionRefused), after: 50)
        _ = next(.answered(.pending), after: 80)
        #expect(try end(.waited, after: 100).reason == "timeout")
    }

    @Test(arguments: [TokenTransportFailure.Reason.unsendable, .missingAssertion])
    mutating func whatRepeatingCannotHelpEndsTheLogin(_ reason: TokenTransportFailure.Reason) throws {
        let end = try end(.unanswered(Self.failure("mend it"), because: reason), after: 1)
        #expect(end.problem.detail == "mend it" && end.reason == "not_asked" && end.code == reason.rawValue)
    }

    @Test mutating func aRefusalEndsTheLogin() throws {
        let problem = GatewayProblem(.loginFailed, "denied", cause: GatewayProblem.Cause(code: "access_denied"))
        let end = try end(.answered(.refused(problem, reason: "denied")), after: 1)
        #expect(end == DevicePolling.End(problem: problem, reason: "denied", code: "access_denied"))
    }
}
