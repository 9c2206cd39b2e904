import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("Calls of one renewal", .timeLimit(.minutes(5)))
struct RenewalStepsTests {
    private static let refused = TokenFailure(
        .loginRequired,
        problem: GatewayProblem(.reauthorizationRequired, "Refused.")
    )

    private static func record(previous: Secret?) -> StoredToken {
        var token = TokenSet(access: Secret("access-1"), obtainedAt: UnixTime(seconds: 0))
        token.refreshToken = Secret("refresh-2")
        return StoredToken(generation: 1, token: token, previousRefreshToken: previous)
    }

    @Test(arguments: [
        TokenFailure(.transient(retryAfter: nil), problem: GatewayProblem(.tokenTemporarilyUnavailable, "Busy.")),
        TokenFailure(.suspect, problem: GatewayProblem(.tokenTemporarilyUnavailable, "A portal.")),
        TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, "No such client.")),
    ])
    func aRefreshTokenThatWasNotRefusedIsKept(_ failure: TokenFailure) {
        var steps = RenewalSteps(rotatesRefreshToken: true)
        let isFound = steps.lookForAnother(after: failure, of: Secret("refresh-1"))
        #expect(!isFound)
    }

    @Test func aGrantThatDoesNotRotateHasNoOther() {
        var steps = RenewalSteps(rotatesRefreshToken: false)
        let isFound = steps.lookForAnother(after: Self.refused, of: Secret("refresh-1"))
        #expect(!isFound)
    }

    @Test func whatTheStoreHoldsIsAdoptedOnce() {
        var steps = RenewalSteps(rotatesRefreshToken: true)
        let isFound = steps.lookForAnother(after: Self.refused, of: Secret("refresh-2"))
        #expect(isFound && steps.readsStore)
        steps.adopted()
        #expect(!steps.readsStore)
    }

    @Test func thePreviousRefreshTokenIsSentOnceAndAfterAnUncertainRotationOnly() {
        var steps = RenewalSteps(rotatesRefreshToken: true)
        let record = Self.record(previous: Secret("refresh-1"))
        let isFound = steps.lookForAnother(after: Self.refused, of: Secret("refresh-2"))
        #expect(isFound)
        #expect(steps.previous(of: record, isUncertain: false) == nil)
        #expect(steps.previous(of: record, isUncertain: true)?.refreshToken == Secret("refresh-1"))
        let isFoundAgain = steps.lookForAnother(after: Self.refused, of: Secret("refresh-1"))
        #expect(isFoundAgain)
        #expect(steps.previous(of: record, isUncertain: true) == nil)
        #expect(steps.previous(of: Self.record(previous: nil), isUncertain: true) == nil)
        #expect(steps.previous(of: nil, isUncertain: true) == nil)
    }

    private static func reply(_ status: Int, _ body: String = "") -> TokenReply {
        TokenReply(status: status, fields: [], body: Array(body.utf8))
    }

    @Test(arguments: [
        (reply(400, #"{"error":"invalid_request"}"#), true), (reply(401), true), (reply(403), true),
        (reply(403, #"{"error":"unauthorized_client"}"#), true), (reply(200, #"{"error":"invalid_request"}"#), true),
        (reply(200), false), (reply(302), false), (reply(404), false), (reply(407), false), (reply(429), false),
        (reply(503), false), (reply(400, #"{"error":"slow_down"}"#), false),
    ])
    func anUnprovenTokenGivesWayToThePreviousOneAfterAnyRefusal(_ reply: TokenReply, _ isPassedOver: Bool) {
        var record = Self.record(previous: Secret("refresh-1"))
        var steps = RenewalSteps(rotatesRefreshToken: true)
        func passesOver(_ text: String, isUncertain: Bool = true) -> Bool {
            steps.passesOver(Secret(text), after: reply, in: record, isUncertain: isUncertain)
        }
        #expect(!passesOver("refresh-2"), "it came with a token")
        record.isUnproven = true
        #expect(!passesOver("refresh-1") && !passesOver("refresh-2", isUncertain: false))
        #expect(passesOver("refresh-2") == isPassedOver)
        #expect(steps.hasRefused(Secret("refresh-2")) == isPassedOver)
    }

    @Test func anUnprovenTokenIsKeptWhereThereIsNoOther() {
        var record = Self.record(previous: nil)
        record.isUnproven = true
        var steps = RenewalSteps(rotatesRefreshToken: true)
        let isPassedOver = steps.passesOver(Secret("refresh-2"), after: Self.reply(401), in: record, isUncertain: true)
        #expect(!isPassedOver && !steps.hasRefused(Secret("refresh-2")))
    }

    @Test func aParentTokenIsRenewedOnce() {
        var steps = RenewalSteps(rotatesRefreshToken: false)
        let (first, second) = (steps.renewsParent(), steps.renewsParent())
        #expect(first && !second)
    }
}
