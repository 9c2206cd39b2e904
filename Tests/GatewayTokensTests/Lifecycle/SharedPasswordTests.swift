import GatewayHTTP
import GatewayTokens
import Testing

@Suite("Password of all subjects", .timeLimit(.minutes(5)))
struct SharedPasswordTests {
    private static func failure(status: Int) -> TokenFailure {
        TokenFailure(
            .terminal,
            problem: GatewayProblem(.credentialMisconfigured, "Refused.", cause: .init(httpStatus: status)),
            isRetried: false
        )
    }

    private let refused = Self.failure(status: 401)

    @Test func beforeItHasWorkedItIsSentOnce() {
        var password = SharedPassword()
        #expect(password.refusal == nil)
        password.failed(refused, hadToken: false)
        #expect(password.refusal == refused)
    }

    @Test func anInventedSubjectStopsNobodyOnceItHasWorked() {
        var password = SharedPassword()
        password.worked()
        for _ in 0..<100 { password.failed(refused, hadToken: false) }
        #expect(password.refusal == nil)
    }

    @Test func threeSubjectsInTurnThatHadATokenStopIt() {
        var password = SharedPassword()
        password.worked()
        for _ in 1..<SharedPassword.tolerated { password.failed(refused, hadToken: true) }
        password.worked()
        for _ in 1..<SharedPassword.tolerated { password.failed(refused, hadToken: true) }
        #expect(password.refusal == nil)
        password.failed(refused, hadToken: true)
        #expect(password.refusal == refused)
        password.worked()
        #expect(password.refusal == nil)
    }

    @Test func whatIsNoRefusedPasswordSaysNothing() {
        var password = SharedPassword()
        password.failed(Self.failure(status: 403), hadToken: true)
        let busy = GatewayProblem(.tokenTemporarilyUnavailable, "Busy.", cause: .init(httpStatus: 401))
        password.failed(TokenFailure(.transient(retryAfter: nil), problem: busy), hadToken: true)
        #expect(password.refusal == nil)
    }
}
