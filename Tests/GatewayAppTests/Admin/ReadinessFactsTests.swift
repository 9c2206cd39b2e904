import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayApp

@Suite("Readiness from what the gateway knows", .timeLimit(.minutes(5)))
struct ReadinessFactsTests {
    private static let now = UnixTime(seconds: 1_772_357_400)

    private func token(_ name: String, _ state: TokenStatus.State) -> TokenStatus {
        TokenStatus(credential: name, strategy: "sample", subject: nil, state: state, generation: 1, isRenewable: true)
    }

    private func expiration(_ kind: Expiration.Kind, of name: String, in seconds: Int64) -> Expiration {
        Expiration(kind, of: name, from: nil, to: Self.now + .seconds(seconds), at: Self.now, action: "Replace it.")
    }

    @Test func aGatewayThatServesAndLacksNothingIsReady() {
        var facts = Readiness.Facts(.serving)
        facts.tokens = [token("box", .valid), token("duke", .acquiring)]
        #expect(Readiness(facts) == Readiness(.ready))
    }

    @Test func whatBlocksIsNotReadyAndWhatFailsIsDegraded() {
        var facts = Readiness.Facts(.serving)
        facts.tokens = [token("box", .loginRequired)]
        #expect(Readiness(facts) == Readiness(.degraded, reasons: ["box: login_required"]))
        facts.storage = (["the audit log cannot be written"], true)
        #expect(
            Readiness(facts)
                == Readiness(.notReady, reasons: ["the audit log cannot be written", "box: login_required"])
        )
    }

    @Test func noticesComeLastAndLeaveItReady() {
        var facts = Readiness.Facts(.serving)
        facts.expirations = [expiration(.secret, of: "box", in: 3600)]
        facts.clockAdvice = "The clock is late."
        let readiness = Readiness(facts)
        #expect(readiness.state == .ready)
        #expect(readiness.reasons.count == 2)
        #expect(readiness.reasons.last == "The clock is late.")
    }

    @Test func aGatewayThatOthersDoNotKnowIsReadyAndSaysWhy() {
        var facts = Readiness.Facts(.serving)
        facts.unlisted = "permission denied"
        let readiness = Readiness(facts)
        #expect(readiness.state == .ready)
        #expect(readiness.reasons.count == 1)
        #expect(readiness.reasons.first?.hasPrefix("authgateway fleet does not list this gateway") == true)
        #expect(readiness.reasons.first?.hasSuffix(": permission denied") == true)
    }

    @Test func whatHasEndedIsAFault() {
        var facts = Readiness.Facts(.serving)
        facts.expirations = [expiration(.certificate, of: "listener", in: -5)]
        #expect(Readiness(facts).state == .degraded)
    }

    @Test func theEndOfATokenThatNeedsAPersonIsSaidOnce() {
        var facts = Readiness.Facts(.serving)
        facts.tokens = [token("box", .loginRequired)]
        facts.expirations = [expiration(.login, of: "box", in: -5), expiration(.secret, of: "box", in: -5)]
        let reasons = Readiness(facts).reasons
        #expect(reasons.count == 2)
        #expect(reasons.contains { $0.hasPrefix("box: its secret has expired") })
        #expect(!reasons.contains { $0.contains("its login") })
    }

    @Test(arguments: [Readiness.Phase.starting, .draining])
    func aGatewayThatStartsOrStopsSaysSoFirst(_ phase: Readiness.Phase) {
        var facts = Readiness.Facts(phase)
        facts.refusal = "configuration refused"
        let readiness = Readiness(facts)
        #expect(readiness.state == .notReady)
        #expect(readiness.reasons.count == 2)
        #expect(readiness.reasons.first == "the gateway is \(phase == .starting ? "starting" : "stopping")")
    }
}

@Suite("What readiness says about tokens", .timeLimit(.minutes(5)))
struct ReadinessReasonsTests {
    private static func token(_ name: String, of credential: String? = nil, lastError: String? = nil) -> TokenStatus {
        var status = TokenStatus(
            credential: name,
            strategy: "sample",
            subject: nil,
            state: .loginRequired,
            generation: 0,
            isRenewable: true
        )
        status.lastError = lastError
        status.perSubjectCredential = credential
        return status
    }

    @Test func eachCredentialIsNamedOnceWithItsReason() {
        let tokens = [Self.token("box", lastError: "It was refused."), Self.token("duke")]
        #expect(ReadinessReasons.needs(of: tokens) == ["box: It was refused.", "duke: login_required"])
    }

    @Test func theFirstSubjectStandsForAllOfItsCredential() {
        let tokens = [
            Self.token("user[1]", of: "user", lastError: "Gone."), Self.token("box"), Self.token("user[2]", of: "user"),
            Self.token("other[1]", of: "other"), Self.token("user[3]", of: "user"),
        ]
        let needs = ReadinessReasons.needs(of: tokens)
        #expect(
            needs == ["user[1]: Gone. (and 2 more subjects)", "box: login_required", "other[1]: login_required"]
        )
    }

    @Test(arguments: [(-5, true), (3600, true), (400 * 86_400, false)])
    func onlyWhatEndsSoonIsNoticed(_ seconds: Int64, _ isNoticed: Bool) throws {
        let now = UnixTime(seconds: 1_772_357_400)
        let end = now + .seconds(seconds)
        let expiration = Expiration(.secret, of: "box", from: nil, to: end, at: now, action: "Replace it.")
        let notice = ReadinessReasons.notice(of: expiration)
        #expect((notice != nil) == isNoticed)
        guard let notice else { return }
        #expect(notice.hasPrefix("box: its secret \(seconds < 0 ? "has expired" : "expires in ")"))
        #expect(notice.hasSuffix("(\(end.rfc3339)): Replace it."))
    }
}
