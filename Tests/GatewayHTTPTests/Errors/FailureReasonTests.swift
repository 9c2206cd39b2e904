import GatewayHTTP
import Testing

@Suite("Why a request failed", .timeLimit(.minutes(5)))
struct FailureReasonTests {
    @Test func everyKindOfProblemHasAWord() {
        for kind in ProblemKind.allCases {
            #expect(FailureReason(GatewayProblem(kind, "")).description == kind.rawValue)
        }
    }

    @Test func theWayToTheUpstreamIsToldApart() {
        for error in GatewayProblem.HopError.allCases {
            let problem = GatewayProblem(.upstreamUnreachable, "", hopError: error)
            #expect(FailureReason(problem).description == error.rawValue)
        }
    }

    @Test func ofATokenEndpointTheKindSaysIt() {
        let problem = GatewayProblem(
            .tokenEndpointUnreachable,
            "",
            hopError: .connectionRefused,
            nextHop: "login.example.com"
        )
        #expect(FailureReason(problem).description == "token-endpoint-unreachable")
    }

    @Test func noWordHasTwoMeanings() {
        let words =
            ProblemKind.allCases.map(\.rawValue) + GatewayProblem.HopError.allCases.map(\.rawValue)
            + [FailureReason.upstreamStatus, .credentialRejected].map(\.description)
        #expect(Set(words).count == words.count)
    }
}
