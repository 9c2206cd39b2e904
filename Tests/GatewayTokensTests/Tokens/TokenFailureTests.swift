import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("What a failure tells a person", .timeLimit(.minutes(5)))
struct TokenFailureTests {
    private func advised(
        _ class: TokenFailure.Class,
        _ kind: ProblemKind,
        isRetried: Bool? = nil,
        login: String? = nil
    ) -> GatewayProblem {
        TokenFailure(`class`, problem: GatewayProblem(kind, "No."), isRetried: isRetried)
            .advised(login: login, refresh: "refresh me").problem
    }

    @Test func aFailureOfTheConfigurationNamesEveryWay() {
        let problem = advised(.terminal, .credentialMisconfigured)
        #expect(problem.command == "refresh me")
        for part in ["No. ", "authgateway reload", "needs a restart", "after 5 and 15 minutes, then hourly"] {
            #expect(problem.detail.contains(part))
        }
    }

    @Test func aRefusedPasswordIsNotPromisedAnotherTry() {
        let problem = advised(.terminal, .credentialMisconfigured, isRetried: false)
        #expect(problem.detail.contains("does not try again by itself"))
        #expect(!problem.detail.contains("hourly"))
    }

    @Test func aLoginIsNamedWhereThereIsOne() {
        #expect(advised(.loginRequired, .loginRequired, login: "login me").command == "login me")
        #expect(advised(.loginRequired, .loginRequired).command == nil)
        #expect(advised(.loginLikely, .loginRequired, login: "login me").command == "login me")
        #expect(advised(.transient(retryAfter: nil), .tokenTemporarilyUnavailable, login: "login me").command == nil)
        #expect(advised(.suspect, .tokenTemporarilyUnavailable, login: "login me").command == nil)
        #expect(advised(.terminal, .staticTokenExpired, login: "login me").detail == "No.")
    }

    @Test func onlyARefusalEndsTheRefreshToken() {
        let problem = GatewayProblem(.credentialMisconfigured, "No.")
        let refused = GatewayProblem(
            .credentialMisconfigured,
            "No.",
            cause: GatewayProblem.Cause(code: "invalid_grant", httpStatus: 400)
        )
        #expect(TokenFailure(.loginRequired, problem: problem).endsRefreshToken)
        #expect(!TokenFailure(.loginLikely, problem: refused).endsRefreshToken)
        #expect(TokenFailure(.terminal, problem: refused).endsRefreshToken)
        #expect(TokenFailure(.terminal, problem: problem, clearsToken: true).endsRefreshToken)
        #expect(!TokenFailure(.terminal, problem: problem).endsRefreshToken)
        #expect(!TokenFailure(.suspect, problem: refused).endsRefreshToken)
        #expect(!TokenFailure(.transient(retryAfter: nil), problem: refused).endsRefreshToken)
    }

    @Test func onlyWhatTheConfigurationCausesIsTriedAgainByItself() {
        let misconfigured = GatewayProblem(.credentialMisconfigured, "No.")
        #expect(TokenFailure(.terminal, problem: misconfigured).isRetried)
        #expect(!TokenFailure(.terminal, problem: misconfigured, isRetried: false).isRetried)
        #expect(!TokenFailure(.terminal, problem: GatewayProblem(.staticTokenExpired, "No.")).isRetried)
        #expect(!TokenFailure(.loginRequired, problem: misconfigured, isRetried: true).isRetried)
        #expect(TokenFailure(.loginLikely, problem: misconfigured).isRetried)
    }
}
