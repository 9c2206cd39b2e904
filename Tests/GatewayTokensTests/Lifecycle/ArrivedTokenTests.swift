import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("What is used of a token that has come", .timeLimit(.minutes(5)))
struct ArrivedTokenTests {
    private static let now = UnixTime(seconds: 1000)

    /// A grant that knows another end than the authorization server has stated.
    private struct Completing: TokenGrant {
        var grant = SampleGrant(rotatesRefreshToken: true)
        let end: UnixTime

        var identity: GrantIdentity { grant.identity }
        var isRenewable: Bool { grant.isRenewable }
        var rotatesRefreshToken: Bool { grant.rotatesRefreshToken }
        func seed(at now: Moment) -> TokenSet? { grant.seed(at: now) }
        func firstStep(of attempt: GrantAttempt) -> GrantStep { grant.firstStep(of: attempt) }
        func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
            grant.interpret(reply, in: &attempt)
        }
        func injection(of token: TokenSet) -> Injection { grant.injection(of: token) }
        func completing(_ token: TokenSet) -> TokenSet {
            var token = token
            token.expiresAt = token.expiresAt ?? end
            return token
        }
    }

    private static func token(endsAt end: Int64?) -> TokenSet {
        TokenSet(
            access: Secret("a"),
            refreshToken: Secret("r"),
            obtainedAt: now,
            expiresAt: end.map { UnixTime(seconds: $0) }
        )
    }

    @Test(arguments: [nil, 1001] as [Int64?], [true, false])
    func aLiveTokenIsUsedAsItCame(_ end: Int64?, _ rotates: Bool) {
        let token = Self.token(endsAt: end)
        let arrived = ArrivedToken(token, by: SampleGrant(rotatesRefreshToken: rotates), at: Self.now)
        #expect(arrived.usable == token && arrived.remark == nil)
    }

    @Test(arguments: [1000, 10] as [Int64])
    func anExpiredTokenIsNotUsed(_ end: Int64) {
        let arrived = ArrivedToken(Self.token(endsAt: end), by: SampleGrant(), at: Self.now)
        #expect(arrived.usable == nil && arrived.remark == nil)
    }

    /// Its refresh token is the only one that is left.
    @Test func anExpiredTokenWithARefreshTokenThatRotatesIsUsedUntilItIsRejected() {
        let arrived = ArrivedToken(Self.token(endsAt: 10), by: SampleGrant(rotatesRefreshToken: true), at: Self.now)
        #expect(arrived.usable == Self.token(endsAt: nil))
        #expect(arrived.remark?.hasSuffix("; it is used until it is rejected") == true)
    }

    @Test func theConfiguredLifetimeCountsInstead() {
        let grant = Completing(end: UnixTime(seconds: 2000))
        let arrived = ArrivedToken(Self.token(endsAt: 10), by: grant, at: Self.now)
        #expect(arrived.usable == Self.token(endsAt: 2000))
        #expect(arrived.remark?.hasSuffix("; the configured lifetime counts") == true)
    }

    @Test func anEndThatTheTokenItselfStatesIsNoBetter() {
        let arrived = ArrivedToken(Self.token(endsAt: 10), by: Completing(end: UnixTime(seconds: 20)), at: Self.now)
        #expect(arrived.usable == Self.token(endsAt: nil) && arrived.remark != nil)
    }
}
