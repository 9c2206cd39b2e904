import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("What becomes of a refresh token in an attempt", .timeLimit(.minutes(5)))
struct RefreshTokenStateTests {
    private static let now = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: UnixTime(seconds: 0))
    private static let failure = GrantAnswer.failure(
        TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, "refused"))
    )

    private static func attempt(next: String? = nil, answers: Int = 1, restartedAfter step: Int? = nil) -> GrantAttempt
    {
        var attempt = GrantAttempt(holding: nil, at: now, nonce: "00")
        attempt.answers = answers
        attempt.nextRefreshToken = next.map { Secret($0) }
        attempt.restartedAfterStep = step
        return attempt
    }

    private static func next() throws -> GrantAnswer {
        .next(TokenRequest(url: try AuthorityURL("https://authority.example/next")))
    }

    @Test(arguments: [(200, true), (400, false), (401, false), (500, true), (502, true), (503, false), (0, false)])
    func aFailureAfterTheTokenWasSentMayHaveSpentIt(_ status: Int, _ isLost: Bool) {
        var refreshToken = RefreshTokenState()
        refreshToken.take(TokenReply(status: status), Self.failure, in: Self.attempt(), wasSent: true)
        #expect(refreshToken.isLost == isLost)
        #expect(refreshToken.next == nil)
    }

    @Test(arguments: [(#"{"error":"server_error"}"#, false), ("{}", true)])
    func anErrorWithStatus200IsAnAnswer(_ body: String, _ isLost: Bool) {
        var refreshToken = RefreshTokenState()
        refreshToken.take(
            TokenReply(status: 200, body: Array(body.utf8)),
            Self.failure,
            in: Self.attempt(),
            wasSent: true
        )
        #expect(refreshToken.isLost == isLost)
    }

    @Test(arguments: [(RefreshError.refused, true), (.suspect, false), (.configuration, false), (.request, false)])
    func onlyARefusalEndsTheOneAtHand(_ error: RefreshError, _ isRefused: Bool) throws {
        var (refreshToken, attempt) = (RefreshTokenState(), Self.attempt())
        attempt.beginAnew(after: error)
        refreshToken.take(TokenReply(status: 400), try Self.next(), in: attempt, wasSent: true)
        #expect(refreshToken.isRefused == isRefused)
        #expect(!refreshToken.isLost)
    }

    @Test func whatWasNotSentIsNotLost() {
        var refreshToken = RefreshTokenState()
        refreshToken.take(TokenReply(status: 500), Self.failure, in: Self.attempt(), wasSent: false)
        refreshToken.takeNoAnswer(mayHaveBeenProcessed: true, wasSent: false)
        refreshToken.takeNoAnswer(mayHaveBeenProcessed: false, wasSent: true)
        #expect(!refreshToken.isLost)
    }

    @Test func noAnswerAfterTheTokenWasSentMayHaveSpentIt() {
        var refreshToken = RefreshTokenState()
        refreshToken.takeNoAnswer(mayHaveBeenProcessed: true, wasSent: true)
        #expect(refreshToken.isLost)
        refreshToken.takeNoAnswer(mayHaveBeenProcessed: false, wasSent: false)
        #expect(refreshToken.isLost, "a later step does not bring it back")
    }

    @Test func aNextTokenIsNotLostUntilItIsSentItself() throws {
        var refreshToken = RefreshTokenState()
        refreshToken.takeNoAnswer(mayHaveBeenProcessed: true, wasSent: true)
        refreshToken.take(TokenReply(status: 200), try Self.next(), in: Self.attempt(next: "r2"), wasSent: true)
        #expect(refreshToken.next == Secret("r2"))
        #expect(!refreshToken.isLost)
        refreshToken.take(
            TokenReply(status: 500),
            Self.failure,
            in: Self.attempt(next: "r2", answers: 2),
            wasSent: true
        )
        #expect(refreshToken.next == Secret("r2"))
        #expect(refreshToken.isLost)
    }

    @Test func aNextTokenOfAnAnswerWithoutAUsableTokenIsUnproven() throws {
        var refreshToken = RefreshTokenState()
        refreshToken.take(TokenReply(status: 200), Self.failure, in: Self.attempt(next: "r2"), wasSent: true)
        #expect(refreshToken.next == Secret("r2") && refreshToken.isUnproven && !refreshToken.isLost)
        refreshToken = RefreshTokenState()
        refreshToken.take(TokenReply(status: 200), try Self.next(), in: Self.attempt(next: "r2"), wasSent: true)
        refreshToken.take(
            TokenReply(status: 503),
            Self.failure,
            in: Self.attempt(next: "r2", answers: 2),
            wasSent: false
        )
        #expect(refreshToken.next == Secret("r2") && !refreshToken.isUnproven, "an earlier step has brought it")
    }

    @Test func aStepThatARefusalLeadsToSpendsNothing() throws {
        var refreshToken = RefreshTokenState()
        refreshToken.take(TokenReply(status: 401), try Self.next(), in: Self.attempt(), wasSent: true)
        #expect(!refreshToken.isLost)
        refreshToken.take(TokenReply(status: 200), try Self.next(), in: Self.attempt(answers: 2), wasSent: true)
        #expect(refreshToken.isLost)
    }

    @Test func anAttemptThatBeginsAnotherWayWasRefused() throws {
        var refreshToken = RefreshTokenState()
        refreshToken.takeNoAnswer(mayHaveBeenProcessed: true, wasSent: true)
        let restarted = Self.attempt(answers: 2, restartedAfter: 2)
        refreshToken.take(TokenReply(status: 200), try Self.next(), in: restarted, wasSent: true)
        #expect(!refreshToken.isLost)
    }
}
