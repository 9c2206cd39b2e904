import GatewayEvents
import GatewayHTTP
import GatewayProxy
import Testing

@Suite("Responses that are failures", .timeLimit(.minutes(5)))
struct FailedResponseTests {
    private static func reason(
        _ status: Int,
        _ outcome: RejectionOutcome = .none,
        wasReplayed: Bool = false,
        credential: String? = "box"
    ) -> String? {
        RequestFailure(
            status: status,
            rejectionOutcome: outcome,
            wasReplayed: wasReplayed,
            credential: credential,
            place: RequestPlace(peer: "unix")
        )?.reason.description
    }

    @Test(arguments: [500, 501, 502, 503, 504, 599])
    func anErrorOfTheUpstreamIsOne(_ status: Int) {
        #expect(Self.reason(status) == "upstream_status")
        #expect(Self.reason(status, credential: nil) == "upstream_status")
    }

    @Test(arguments: [400, 401, 403, 404, 409, 429, 499])
    func anotherStatusIsBetweenTheClientAndTheUpstream(_ status: Int) {
        #expect(Self.reason(status) == nil)
        #expect(Self.reason(status, credential: nil) == nil)
    }

    @Test(arguments: [
        RejectionOutcome.rejected, .rejectedNotHeld, .rejectedNotSafe, .challengedNotHeld, .notRenewed, .rejectedAgain,
        .overBudget(fillsAfter: .seconds(9)), .notReplaced(.loginRequired),
    ])
    func aRejectedCredentialIsOne(_ outcome: RejectionOutcome) {
        #expect(Self.reason(401, outcome) == "credential_rejected")
        #expect(Self.reason(403, outcome) == "credential_rejected")
    }

    @Test func soIsOneThatRemainsBehindAReplay() {
        #expect(Self.reason(401, wasReplayed: true) == "credential_rejected")
        #expect(Self.reason(403, wasReplayed: true) == "credential_rejected")
        #expect(Self.reason(404, wasReplayed: true) == nil)
        #expect(Self.reason(401, wasReplayed: true, credential: nil) == nil)
    }
}
