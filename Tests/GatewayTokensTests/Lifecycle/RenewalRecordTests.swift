import GatewayHTTP
import Testing

@testable import GatewayTokens

/// What may happen to a refresh token, and what has to be kept then.
@Suite("The record that renewals work on", .timeLimit(.minutes(1)))
struct RenewalRecordTests {
    private static let now = UnixTime(seconds: 0)
    private static let journal = RotationAttempt(id: "1", generation: 1, startedAt: now)

    private static func token(_ refresh: String?, access: String = "access-1") -> TokenSet {
        var token = TokenSet(access: Secret(access), refreshToken: refresh.map { Secret($0) }, obtainedAt: now)
        token.refreshTokenExpiresAt = now + .seconds(60)
        token.refreshTokenObtainedAt = now
        return token
    }

    private static func stored(
        _ refresh: String?,
        previous: String? = nil,
        attempt: RotationAttempt? = nil,
        _ change: (inout StoredToken) -> Void = { _ in }
    ) -> StoredToken {
        var stored = StoredToken(
            generation: 1,
            token: token(refresh),
            previousRefreshToken: previous.map { Secret($0) },
            attempt: attempt
        )
        change(&stored)
        return stored
    }

    private static func record(
        _ stored: StoredToken?,
        rotates: Bool = true,
        canAcquireAnew: Bool = false
    ) -> RenewalRecord {
        var record = RenewalRecord(rotatesRefreshToken: rotates, canAcquireAnew: canAcquireAnew)
        record.replace(with: stored)
        return record
    }

    private static let refused = TokenFailure(
        .loginRequired,
        problem: GatewayProblem(.reauthorizationRequired, "Refused.")
    )

    private static func refusal(of refresh: String, isRotationUncertain: Bool = false) -> RefreshTokenRefusal {
        RefreshTokenRefusal(
            of: Secret(refresh),
            isRotationUncertain: isRotationUncertain,
            problem: refused.problem
        )
    }

    /// The state after an answer that brought `next` beside no token.
    private static func unproven(_ next: String) -> RefreshTokenState { state(next, .failure(refused)) }

    /// The state after a step of a longer attempt that brought `next`, and failed later.
    private static func proven(_ next: String) throws -> RefreshTokenState {
        state(next, .next(TokenRequest(url: try AuthorityURL("https://authority.example/next"))))
    }

    private static func state(_ next: String, _ answer: GrantAnswer) -> RefreshTokenState {
        var attempt = GrantAttempt(
            holding: nil,
            at: Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: now),
            nonce: "00"
        )
        attempt.answers = 1
        attempt.nextRefreshToken = Secret(next)
        var state = RefreshTokenState()
        state.take(TokenReply(status: 200), answer, in: attempt, wasSent: true)
        return state
    }

    // MARK: Uncertainty

    @Test func aJournalThatIsFoundMakesItUncertainAndTheOwnOneDoesNot() {
        #expect(Self.record(Self.stored("r1", attempt: Self.journal)).isUncertain)
        var record = Self.record(Self.stored("r1"))
        #expect(record.journalled(Self.journal)?.attempt == Self.journal)
        #expect(record.token?.attempt == nil)
        record.noteJournal(Self.journal)
        #expect(record.token?.attempt == Self.journal)
        #expect(!record.isUncertain)
    }

    @Test func aLostAnswerCountsUntilATokenComes() {
        var record = Self.record(Self.stored("r1"))
        record.answerLost()
        #expect(record.isUncertain && record.isRotationUncertain)
        record.replace(with: record.successor(of: Secret("r1"), with: Self.token("r2"), as: 2, nil))
        #expect(!record.isUncertain)
    }

    @Test func theStatusDoesNotSayItWhereAnotherWayLeadsToTheNextToken() {
        let record = Self.record(Self.stored("r1", attempt: Self.journal), canAcquireAnew: true)
        #expect(record.isUncertain && !record.isRotationUncertain)
    }

    @Test func strikingTheJournalMakesItCertain() {
        var record = Self.record(Self.stored("r1", attempt: Self.journal))
        let hadJournal = record.strikeJournal()
        #expect(hadJournal && !record.isUncertain && record.token?.attempt == nil)
        record.answerLost()
        let hasJournal = record.strikeJournal()
        #expect(!hasJournal && !record.isUncertain)
    }

    @Test func aRecordIsBegunWithAsItSaysItself() {
        var record = Self.record(Self.stored("r1"))
        record.answerLost()
        record.begin(with: Self.stored("r1"))
        #expect(!record.isUncertain)
        record.begin(with: Self.stored("r1", attempt: Self.journal))
        #expect(record.isUncertain)
    }

    @Test func whatIsShownOutlivesTheRecord() {
        var record = Self.record(Self.stored("r1", attempt: Self.journal))
        let wasUncertain = record.isUncertain
        record.replace(with: nil)
        #expect(!record.isUncertain)
        record.goOnShowing(isUncertain: wasUncertain)
        #expect(record.isUncertain)
    }

    // MARK: The next refresh token

    @Test func theSuccessorKeepsTheSpentOneWhereRefreshTokensRotate() {
        let rotating = Self.record(Self.stored("r1"))
        let spent = Secret("r1")
        #expect(rotating.successor(of: spent, with: Self.token("r2"), as: 2, nil).previousRefreshToken == spent)
        #expect(rotating.successor(of: spent, with: Self.token("r1"), as: 2, nil).previousRefreshToken == nil)
        #expect(rotating.successor(of: spent, with: Self.token("r1"), as: 2, Self.journal).attempt == Self.journal)
        let fixed = Self.record(Self.stored("r1"), rotates: false)
        let next = fixed.successor(of: spent, with: Self.token("r2"), as: 2, Self.journal)
        #expect(next.previousRefreshToken == nil && next.attempt == nil)
    }

    @Test func theNextGenerationIsAboveTheRecordAndAboveWhatWasThere() {
        #expect(Self.record(nil).nextGeneration(after: 0) == 1)
        #expect(Self.record(Self.stored("r1")).nextGeneration(after: 0) == 2)
        #expect(Self.record(Self.stored("r1")).nextGeneration(after: 7) == 8)
    }

    @Test func aProvenNextOneIsStoredAndTheSpentOneKeptBesideIt() throws {
        let stored = Self.stored("r1", attempt: Self.journal) {
            $0.isRestored = true
            $0.refusal = Self.refusal(of: "r1")
        }
        var record = Self.record(stored)
        let isKept = record.keep(try Self.proven("r2"), spending: Secret("r1"))
        let token = try #require(record.token)
        #expect(isKept && !record.isUncertain)
        #expect(token.token.refreshToken == Secret("r2") && token.previousRefreshToken == Secret("r1"))
        #expect(token.token.refreshTokenExpiresAt == nil && token.token.refreshTokenObtainedAt == nil)
        #expect(token.attempt == nil && !token.isUnproven && !token.isRestored && token.refusal == nil)
        #expect(token.token.access == Secret("access-1"))
    }

    @Test func anUnprovenNextOneKeepsTheJournal() throws {
        var record = Self.record(Self.stored("r1", attempt: Self.journal))
        let isKept = record.keep(Self.unproven("r2"), spending: Secret("r1"))
        let token = try #require(record.token)
        #expect(isKept && record.isUncertain && token.isUnproven && token.attempt == Self.journal)
        #expect(token.token.refreshToken == Secret("r2") && token.previousRefreshToken == Secret("r1"))
    }

    @Test func theLastOneThatHasWorkedOutlivesARowOfUnprovenOnes() {
        var record = Self.record(Self.stored("r1"))
        for (spent, next) in [("r1", "r2"), ("r2", "r3"), ("r3", "r4")] {
            let isKept = record.keep(Self.unproven(next), spending: Secret(spent))
            #expect(isKept)
            #expect(record.token?.token.refreshToken == Secret(next))
            #expect(record.token?.previousRefreshToken == Secret("r1"))
        }
    }

    @Test func anUnprovenOneIsTakenForGoodWhereAnotherWayLeadsToTheNextToken() {
        var record = Self.record(Self.stored("r1", attempt: Self.journal), canAcquireAnew: true)
        let isKept = record.keep(Self.unproven("r2"), spending: Secret("r1"))
        #expect(isKept && !record.isUncertain)
        #expect(record.token?.isUnproven == false && record.token?.attempt == nil)
    }

    @Test func aNextOneThatMayBeSpentKeepsTheJournal() throws {
        var state = try Self.proven("r2")
        state.takeNoAnswer(mayHaveBeenProcessed: true, wasSent: true)
        var record = Self.record(Self.stored("r1", attempt: Self.journal), canAcquireAnew: true)
        let isKept = record.keep(state, spending: Secret("r1"))
        #expect(isKept && record.isUncertain)
        #expect(record.token?.attempt == Self.journal && record.token?.isUnproven == false)
    }

    @Test func nothingIsKeptWithoutANextOne() throws {
        let before = Self.stored("r1", attempt: Self.journal)
        var record = Self.record(before)
        let isKept = [
            record.keep(RefreshTokenState(), spending: Secret("r1")),
            record.keep(try Self.proven("r1"), spending: Secret("r1")),
            record.keep(try Self.proven("r2"), spending: nil),
        ]
        #expect(isKept == [false, false, false])
        #expect(record.token == before && record.isUncertain)
        var fixed = Self.record(before, rotates: false)
        let isKeptThere = fixed.keep(try Self.proven("r2"), spending: Secret("r1"))
        #expect(!isKeptThere && fixed.token == before)
    }

    // MARK: Refusals

    @Test func aRefusalOfTheStoredRefreshTokenIsNotedAndStrikesTheJournal() throws {
        var record = Self.record(Self.stored("r1", attempt: Self.journal))
        let isNoted = record.noteRefusal(of: Secret("r1"), by: Self.refused)
        let token = try #require(record.token)
        #expect(isNoted && token.attempt == nil && token.knownRefusal != nil)
        // The answer to an earlier call was lost, and that is what the person is told.
        #expect(token.knownRefusal?.isRotationUncertain == true && record.isUncertain)
        #expect(record.hold == token.knownRefusal.map(RenewalRecord.Hold.refused))
    }

    @Test func aRefusalOfAnotherRefreshTokenOrOfAnotherKindIsNotNoted() {
        let before = Self.stored("r1", attempt: Self.journal)
        var record = Self.record(before)
        let busy = TokenFailure(.transient(retryAfter: nil), problem: GatewayProblem(.tokenTemporarilyUnavailable, "."))
        let isNoted = [
            record.noteRefusal(of: Secret("r0"), by: Self.refused), record.noteRefusal(of: nil, by: Self.refused),
            record.noteRefusal(of: Secret("r1"), by: busy),
        ]
        #expect(isNoted == [false, false, false])
        #expect(record.token == before && record.isUncertain)
    }

    @Test func anOperatorHasItSentAllTheSame() {
        var record = Self.record(Self.stored("r1") { $0.refusal = Self.refusal(of: "r1") })
        #expect(record.hold != nil)
        record.forgetRefusal()
        #expect(record.hold == nil && record.token?.token.refreshToken == Secret("r1"))
    }

    @Test func aRefusalOfAnEarlierRefreshTokenHoldsNothingBack() {
        #expect(Self.record(Self.stored("r2") { $0.refusal = Self.refusal(of: "r1") }).hold == nil)
    }

    @Test(arguments: [(true, false, true), (false, false, false), (true, true, false)])
    func aRestoredRefreshTokenIsHeldBackIfItMayBeSpent(_ rotates: Bool, _ canAcquireAnew: Bool, _ isHeld: Bool) {
        let stored = Self.stored("r1") { $0.isRestored = true }
        let record = Self.record(stored, rotates: rotates, canAcquireAnew: canAcquireAnew)
        #expect(record.hold == (isHeld ? .restored : nil))
    }

    @Test func nothingIsHeldBackOfATokenThatWasRevoked() {
        #expect(Self.record(nil).hold == nil)
        #expect(Self.record(.revoked(generation: 1, at: Self.now)).hold == nil)
    }

    @Test func whatWasRefusedIsDroppedAndNothingElse() throws {
        let before = Self.stored("r1", attempt: Self.journal) { $0.isUnproven = true }
        var record = Self.record(before)
        let isDropped = [record.dropRefreshToken(nil), record.dropRefreshToken(Secret("r0"))]
        #expect(isDropped == [false, false] && record.token == before)
        let isDroppedNow = record.dropRefreshToken(Secret("r1"))
        let token = try #require(record.token)
        #expect(isDroppedNow && !record.isUncertain)
        #expect(token.token.refreshToken == nil && token.attempt == nil && !token.isUnproven)
        #expect(token.token.access == Secret("access-1"))
    }

    @Test func aRejectionIsThatOfItsGeneration() {
        var record = Self.record(Self.stored("r1"))
        let isEarlier = record.reject(0)
        #expect(!isEarlier && record.token?.isRejected == false)
        let isPresent = record.reject(1)
        #expect(isPresent && record.token?.isRejected == true)
    }

    // MARK: What others have written

    @Test func theJournalOfAGatewayThatDidNotEndItsAttemptIsTakenUpOnce() {
        var record = Self.record(Self.stored("r1"))
        let seen = Self.stored("r1", attempt: Self.journal)
        let isTaken = record.takeUpJournal(of: seen)
        #expect(isTaken && record.isUncertain && record.token?.attempt == Self.journal)
        let isTakenAgain = record.takeUpJournal(of: seen)
        #expect(!isTakenAgain)
    }

    @Test func theJournalOfAnotherTokenIsNotTakenUp() {
        var record = Self.record(Self.stored("r1"))
        let isTaken = [
            record.takeUpJournal(of: Self.stored("r2", attempt: Self.journal)),
            record.takeUpJournal(of: Self.stored("r1")), record.takeUpJournal(of: nil),
        ]
        #expect(isTaken == [false, false, false] && !record.isUncertain)
    }

    @Test func theRefusalInTheStoreIsFollowedAndEndsWithIt() {
        var record = Self.record(Self.stored("r1", attempt: Self.journal))
        record.followRefusal(of: Self.stored("r1") { $0.refusal = Self.refusal(of: "r1") })
        #expect(record.hold != nil && record.token?.attempt == nil && !record.isUncertain)
        record.followRefusal(of: Self.stored("r1"))
        #expect(record.hold == nil)
    }

    @Test func withoutANewRefusalNothingIsFollowed() {
        var record = Self.record(Self.stored("r1"))
        record.answerLost()
        record.followRefusal(of: Self.stored("r1", attempt: Self.journal))
        record.followRefusal(of: Self.stored("r2") { $0.refusal = Self.refusal(of: "r2") })
        #expect(record.token == Self.stored("r1") && record.isUncertain)
        record.follow(Self.stored("r2", attempt: Self.journal))
        #expect(record.token == Self.stored("r1") && !record.isUncertain)
    }

    @Test func findingsOfOthersAreNotOverwritten() {
        var record = Self.record(Self.stored("r1"))
        record.keepFindings(of: Self.stored("r1", attempt: Self.journal) { $0.refusal = Self.refusal(of: "r1") })
        #expect(record.isUncertain && record.token?.attempt == Self.journal && record.token?.refusal != nil)
        var other = Self.record(Self.stored("r1"))
        other.answerLost()
        other.keepFindings(of: Self.stored("r2", attempt: Self.journal))
        #expect(other.isUncertain && other.token == Self.stored("r1"))
    }

    // MARK: What a person brings

    @Test func aLoginWithoutAnAccessTokenIsKeptBesideTheEarlierToken() throws {
        let record = Self.record(Self.stored("r1"))
        let token = record.login(with: Self.token("new", access: ""), as: 2, Self.journal)
        #expect(token.generation == 2 && token.token.access == Secret("access-1") && !token.isRejected)
        #expect(token.token.refreshToken == Secret("new") && token.previousRefreshToken == Secret("r1"))
        #expect(token.isUnproven && token.attempt == Self.journal)
    }

    @Test func theProvenRefreshTokenOutlivesLoginsThatBringNone() {
        let record = Self.record(Self.stored("unproven", previous: "r1") { $0.isUnproven = true })
        let token = record.login(with: Self.token("new", access: ""), as: 2, Self.journal)
        #expect(token.previousRefreshToken == Secret("r1"))
    }

    @Test func aRefusedOrRestoredRefreshTokenIsNotSentAfterALogin() {
        let refused = Self.record(Self.stored("r1") { $0.refusal = Self.refusal(of: "r1") })
        let restored = Self.record(Self.stored("r1") { $0.isRestored = true })
        for record in [refused, restored] {
            let token = record.login(with: Self.token("new", access: ""), as: 2, Self.journal)
            #expect(token.previousRefreshToken == nil && token.refusal == nil && !token.isRestored)
        }
    }

    @Test func aFirstLoginWithoutAnAccessTokenHasNothingToUse() {
        for record in [Self.record(nil), Self.record(.revoked(generation: 1, at: Self.now))] {
            let token = record.login(with: Self.token("new", access: ""), as: 2, Self.journal)
            #expect(token.isRejected && !token.isRevoked && token.isUnproven && token.previousRefreshToken == nil)
            #expect(token.token.refreshToken == Secret("new") && token.generation == 2)
        }
    }

    @Test func eachRefreshTokenThatMayBeValidIsRevoked() {
        func refreshTokens(_ stored: StoredToken?) -> [Secret?] {
            Self.record(stored).tokensToRevoke.map(\.refreshToken)
        }
        #expect(refreshTokens(nil) == [])
        #expect(refreshTokens(.revoked(generation: 1, at: Self.now)) == [])
        #expect(refreshTokens(Self.stored("r2", previous: "r1")) == [Secret("r2")])
        #expect(
            refreshTokens(Self.stored("r2", previous: "r1") { $0.isUnproven = true }) == [Secret("r1"), Secret("r2")]
        )
        #expect(refreshTokens(Self.stored("r1", previous: "r1") { $0.isUnproven = true }) == [Secret("r1")])
    }
}
