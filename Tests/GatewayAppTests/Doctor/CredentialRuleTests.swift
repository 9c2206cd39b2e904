import GatewayHTTP
import Testing

@testable import GatewayApp
@testable import GatewayTokens

@Suite("What doctor says of credentials", .timeLimit(.minutes(5)))
struct CredentialRuleTests {
    private let now = UnixTime(seconds: 1_800_000_000)

    private func finding(_ observation: CredentialRule.Observation) -> DoctorFinding {
        CredentialRule.finding(of: "my box", observation, at: now)
    }

    private func stored(_ stored: CredentialRule.Stored, canLogIn: Bool = true) -> DoctorFinding {
        finding(.stored(stored, canLogIn: canLogIn))
    }

    @Test func whatIsNotTriedSaysWhy() {
        #expect(finding(.fixed).level == .ok)
        #expect(finding(.perSubject).level == .skipped)
        #expect(finding(.notTried("--offline")).text == "not tried: --offline")
    }

    @Test func aTrialIsATokenOrTheProblemWithItsCommand() {
        #expect(finding(.obtained).level == .ok)
        let login = GatewayProblem(.loginRequired, "Log in.", command: "authgateway login box")
        #expect(finding(.failed(login)).command == "authgateway login box")
        let wrong = finding(.failed(GatewayProblem(.credentialMisconfigured, "invalid_client")))
        #expect(wrong.level == .error && wrong.text == "no token: invalid_client" && wrong.command != nil)
        #expect(finding(.locked).command == "authgateway token unlock 'my box'")
    }

    /// Each message names its own credential. Those of many are one line all the same.
    @Test func theSameFailureOfManyIsOneLine() {
        func problem(of name: String) -> GatewayProblem {
            GatewayProblem(.tokenEndpointUnreachable, "The token endpoint of \(name) refuses connections.")
        }
        let findings = (1...100).map { CredentialRule.finding(of: "c\($0)", .failed(problem(of: "c\($0)")), at: now) }
        #expect(findings[6].text == "no token: The token endpoint of c7 refuses connections.")
        let excerpt = DoctorReport(findings).condensed(.credentials)
        #expect(excerpt.findings.map(\.subject) == ["c1, c2, c3, c4, c5 and 95 more"])
        #expect(
            excerpt.findings.map(\.text) == ["no token: The token endpoint of each credential refuses connections."]
        )
        let others = (1...100).map { CredentialRule.finding(of: "c", .failed(problem(of: "c\($0)")), at: now) }
        #expect(
            DoctorReport(others).condensed(.credentials).findings.count == DoctorReport.mostShown,
            "other names stay"
        )
    }

    @Test func aStaticCredentialIsWhatUpstreamsSayOfIt() {
        let source = FixedCredentialSource(name: "my box", strategy: "bearer", injection: Injection())
        func found() -> DoctorFinding {
            let moment = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: now)
            return finding(
                .status(
                    TokenStatus(
                        of: source,
                        origin: SecretOrigin(words: "the file box.key", isVariable: false),
                        at: moment
                    )
                )
            )
        }
        #expect(found().level == .ok && found().text.contains("not accepted by an upstream yet"))
        source.accepted(by: nil, nil, at: MonotonicTime(nanoseconds: 0))
        #expect(found().level == .ok && found().text.contains(now.rfc3339))
        let path = Array("/a".utf8)
        let key = RejectionLedger.Key(route: 0, template: PathTemplate(path.span, method: 0..<0, path: 0..<path.count))
        source.rejected(by: nil, key, status: 401, at: MonotonicTime(nanoseconds: 1_000_000_000))
        #expect(found().level == .warning && found().text.contains("last accepted it at \(now.rfc3339)"))
        #expect(found().remedy?.contains("replace the file box.key") == true)
        #expect(found().command == "authgateway audit who 'my box'")
        source.accepted(by: nil, key, at: MonotonicTime(nanoseconds: 2_000_000_000))
        #expect(found().level == .ok)
        for _ in 0..<5 {
            source.rejected(by: nil, key, status: 401, at: MonotonicTime(nanoseconds: 0))
        }
        #expect(found().level == .error && found().text.contains("the file box.key"))
        #expect(found().text.contains("Replace it") && found().command == "authgateway reload")
        source.lock()
        #expect(found().level == .error && found().command == "authgateway token unlock 'my box'")
    }

    @Test func aStoredTokenWithALoginIsFineUntilTheLoginEnds() {
        let later = now + .seconds(12 * 86_400)
        let good = stored(.token(end: now, renewalEnd: later, hasRefreshToken: true))
        #expect(good.level == .ok && good.text.contains("its login expires in 12d"))
        let ended = stored(.token(end: nil, renewalEnd: now, hasRefreshToken: true))
        #expect(ended.level == .error && ended.command == "authgateway login 'my box'")
        let dead = stored(.token(end: now, renewalEnd: nil, hasRefreshToken: false), canLogIn: false)
        #expect(dead.level == .error && dead.command == nil)
        #expect(stored(.nothing).level == .error)
        #expect(stored(.revoked).level == .error)
        #expect(stored(.unreadable("damaged")).text.contains("damaged"))
        #expect(stored(.rotationUncertain).level == .warning)
        let refused = stored(.refused)
        #expect(refused.level == .error && refused.command == "authgateway login 'my box'")
    }

    @Test func aTokenOfTheConfigurationCountsDown() {
        #expect(finding(.configured(end: nil)).level == .ok)
        #expect(finding(.configured(end: now + .seconds(600))).text.hasSuffix("10m00s"))
        #expect(finding(.configured(end: now)).level == .error)
    }

    private func status(
        _ state: TokenStatus.State,
        error: String? = nil,
        action: String? = nil,
        failing: TokenStatus.Failing? = nil
    ) -> DoctorFinding {
        var status = TokenStatus(
            credential: "my box",
            strategy: "box_oauth",
            subject: nil,
            state: state,
            generation: 3,
            remainingSeconds: 3600,
            isRenewable: true,
            lastError: error,
            action: action
        )
        status.failing = failing
        return finding(.status(status))
    }

    @Test func aStaticKeyThatWasOnlyRejectedIsAWarning() {
        var key = TokenStatus(
            credential: "my box",
            strategy: "bearer",
            subject: nil,
            state: .valid,
            generation: 0,
            isRenewable: false
        )
        key.isStatic = true
        #expect(finding(.status(key)).level == .ok)
        key.secretOrigin = "the environment variable MY_API_KEY (g.yaml:23)"
        key.lastRejectedAt = "2026-11-25T12:00:00.000Z"
        let rejected = finding(.status(key))
        #expect(rejected.level == .warning)
        #expect(rejected.text.contains("rejected by an upstream, last at 2026-11-25T12:00:00.000Z, and never accepted"))
        #expect(rejected.remedy == "Check the environment variable MY_API_KEY (g.yaml:23).")
        key.lastAcceptedAt = "2026-11-25T11:00:00.000Z"
        #expect(finding(.status(key)).level == .warning)
        #expect(finding(.status(key)).text.contains("last accepted it at 2026-11-25T11:00:00.000Z"))
        key.lastAcceptedAt = "2026-11-25T13:00:00.000Z"
        #expect(finding(.status(key)).level == .ok)
    }

    @Test func aMissingScopeIsAWarningWithTheLogin() {
        var status = TokenStatus(
            credential: "my box",
            strategy: "box_oauth",
            subject: nil,
            state: .valid,
            generation: 3,
            remainingSeconds: 3600,
            isRenewable: true,
            action: "authgateway login 'my box' --scope write"
        )
        #expect(finding(.status(status)).level == .ok)
        status.missingScopes = ["write"]
        let found = finding(.status(status))
        #expect(found.level == .warning && found.text.contains("the token lacks the scope write"))
        #expect(found.command == "authgateway login 'my box' --scope write")
    }

    @Test func whatIsLockedIsSaidOnce() {
        let locked = status(.locked)
        #expect(locked.level == .error && locked.text == "locked by an operator")
        #expect(locked.command == "authgateway token unlock 'my box'")
    }

    @Test func theRunningGatewaySaysHowItIs() {
        #expect(status(.valid).level == .ok)
        #expect(status(.empty).level == .ok)
        #expect(status(.empty, error: "The authority does not answer.").level == .error)
        let warned = status(.valid, error: "The authority does not answer.")
        #expect(warned.level == .warning && warned.command == "authgateway token refresh 'my box'")
        let person = status(.loginRequired, error: "Refused.", action: "authgateway login box")
        #expect(person.level == .error && person.command == "authgateway login box" && person.remedy == nil)
        let sentence = status(.failed, error: "Wrong.", action: "Correct the credential.")
        #expect(sentence.remedy == "Correct the credential." && sentence.command == "authgateway status 'my box'")
    }

    @Test func whatFailsNowIsNamedWithItsRemedy() {
        let failing = TokenStatus.Failing(
            since: "2027-01-01T00:00:00Z",
            reason: "invalid_client",
            remedy: "Correct the secret.",
            command: "authgateway token refresh box"
        )
        let found = status(.failed, failing: failing)
        #expect(found.level == .error && found.text == "failed: invalid_client")
        #expect(found.remedy == "Correct the secret." && found.command == "authgateway token refresh box")
        #expect(status(.valid, failing: failing).level == .warning)
    }
}
