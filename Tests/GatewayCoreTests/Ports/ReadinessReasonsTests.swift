import GatewayCore
import GatewayHTTP
import GatewayTokens
import Testing

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
        #expect(notice.hasPrefix("box: its secret \(seconds < 0 ? "has ended" : "ends in ")"))
        #expect(notice.hasSuffix("(\(end.rfc3339)): Replace it."))
    }
}
