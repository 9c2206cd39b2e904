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
            .advised(login: login, refresh: "refresh me", importing: "import me").problem
    }

    @Test(
        "why no answer came, with the host and whose token endpoint it is",
        arguments: [
            (.nameNotResolved, nil, "The name as.example (token endpoint of box) cannot be resolved."),
            (.connectionRefused, nil, "as.example:9199 (token endpoint of box) refuses connections."),
            (.connectTimeout, nil, "as.example:9199 (token endpoint of box) did not accept a connection in time."),
            (
                .responseTimeout, nil,
                "as.example:9199 (token endpoint of box) did not answer in time; one call may take 15 s."
            ),
            (.connectionLost, nil, "The connection to as.example:9199 (token endpoint of box) was lost."),
            (
                .tlsFailed, .certificateUntrusted,
                "The certificate of as.example:9199 (token endpoint of box) is not trusted."
                    + " If it comes from your own CA, add that CA to this machine's (update-ca-certificates)."
            ),
            (
                .tlsFailed, .certificateNamesOther,
                "The certificate of as.example:9199 (token endpoint of box) is for another host."
            ),
            (.tlsFailed, .handshakeFailed, "as.example:9199 (token endpoint of box) does not speak TLS on this port."),
            (.tlsFailed, nil, "The TLS handshake with as.example:9199 (token endpoint of box) failed."),
        ] as [(TokenTransportFailure.Reason, GatewayProblem.HopError?, String)]
    )
    func theHostIsNamed(
        _ reason: TokenTransportFailure.Reason,
        _ error: GatewayProblem.HopError?,
        _ detail: String
    ) throws {
        var failure = TokenTransportFailure(reason, mayHaveBeenProcessed: false)
        failure.tlsError = error
        let request = TokenRequest(url: try AuthorityURL("https://as.example:9199/token"))
        #expect(TokenFailure(explaining: failure, of: request, credential: "box").problem.detail == detail)
    }

    /// Whatever stands between could be the cause, and only the operator of the proxy knows.
    @Test(arguments: [TokenTransportFailure.Reason.tlsFailed, .connectionLost, .responseTimeout, .invalidAnswer])
    func aProxyOnTheWayIsNamed(_ reason: TokenTransportFailure.Reason) throws {
        var failure = TokenTransportFailure(reason, mayHaveBeenProcessed: true)
        failure.proxy = "http://proxy.example:3128"
        let request = TokenRequest(url: try AuthorityURL("https://as.example:9199/token"))
        let detail = TokenFailure(explaining: failure, of: request, credential: "box").problem.detail
        #expect(detail.hasSuffix(" The connection goes through the proxy http://proxy.example:3128."), "\(detail)")
        #expect(detail.contains("as.example:9199"))
    }

    @Test func aFailureOfTheConfigurationNamesEveryWay() {
        let problem = advised(.terminal, .credentialMisconfigured)
        #expect(problem.command == "refresh me")
        for part in ["No. ", "authgateway reload", "needs a restart", "after 5 and 15 minutes, then hourly"] {
            #expect(problem.detail.contains(part))
        }
    }

    @Test(
        "a secret from a variable is corrected and takes a restart, if it is to blame",
        arguments: [
            ("invalid_client", 401, true, true), (nil, 401, true, true), ("invalid_request", 400, true, false),
            (nil, 400, true, false), ("invalid_client", 401, false, false),
        ] as [(String?, Int, Bool, Bool)]
    )
    func aVariableTakesARestart(_ code: String?, _ status: Int, _ isVariable: Bool, _ isNamed: Bool) {
        let cause = GatewayProblem.Cause(code: code, httpStatus: status)
        let failure = TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, "No.", cause: cause))
        let origin = SecretOrigin(words: "the environment variable SEC (g.yaml:16)", isVariable: isVariable)
        let advised = failure.advised(login: nil, refresh: "refresh me", importing: "import me", secret: origin)
        let remedy = "Correct the environment variable SEC (g.yaml:16) and restart the gateway"
        #expect(advised.remedy == (isNamed ? remedy : nil))
        #expect(advised.problem.command == (isNamed ? nil : "refresh me"))
        #expect(advised.problem.detail.hasPrefix("No. \(remedy). The gateway tries again") == isNamed)
        #expect(advised.reason == "No.")
    }

    @Test(
        "what another call cannot change is corrected in the configuration",
        arguments: [
            (nil, 302, "the address of the token endpoint"), (nil, 404, "the address of the token endpoint"),
            ("invalid_request", 307, "the address of the token endpoint"), ("invalid_scope", 400, "scopes"),
            ("unsupported_grant_type", 400, "the address of the token endpoint or the strategy"),
        ] as [(String?, Int, String)]
    )
    func aWrongSettingTakesAReload(_ code: String?, _ status: Int, _ setting: String) {
        let cause = GatewayProblem.Cause(code: code, httpStatus: status)
        let failure = TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, "No.", cause: cause))
        let origin = SecretOrigin(words: "the environment variable SEC (g.yaml:16)", isVariable: true)
        let advised = failure.advised(login: nil, refresh: "refresh me", importing: "import me", secret: origin)
        #expect(advised.remedy == "Correct \(setting) in the configuration file, then reload")
        #expect(advised.problem.command == "authgateway reload")
        #expect(advised.reason == "No." && advised.problem.detail.contains("is reloaded automatically"))
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
        let expired = advised(.terminal, .staticTokenExpired, login: "login me")
        #expect(expired.detail == "No." && expired.command == "import me")
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
