import GatewayHTTP
import Testing

@testable import GatewayTokens

/// What two gateways make of the answers of one store. Each step is the answer, and what follows from it.
@Suite("A record in a store that gateways share", .timeLimit(.minutes(1)))
struct StoredRecordTests {
    private let key = CredentialKey(digest: "00")

    private func token(_ number: Int, attempt: Bool = false) -> StoredToken {
        StoredToken(
            generation: number,
            token: TokenSet(access: Secret("access-\(number)"), obtainedAt: UnixTime(milliseconds: Int64(number))),
            attempt: attempt
                ? RotationAttempt(id: "a", generation: number, startedAt: UnixTime(milliseconds: 0)) : nil
        )
    }

    private func revision(_ value: Int64) -> TokenRevision { TokenRevision(value) }
    private func lease(_ value: Int64) -> TokenLease { TokenLease(key: key, revision: revision(value)) }
    private func entry(_ token: StoredToken?, _ value: Int64) -> TokenEntry {
        TokenEntry(token: token, revision: revision(value))
    }

    /// A record that holds token 1 under revision 5.
    private func loaded() -> StoredRecord {
        var record = StoredRecord()
        record.load(entry(token(1), 5))
        return record
    }

    @Test func aRenewalLeasesAndCommits() {
        var record = loaded()
        let journal = token(1, attempt: true)
        #expect(record.leased(.granted(lease(6)), writing: journal, holding: token(1)) == .begin)
        #expect(record.lease == lease(6))
        #expect(record.seen == entry(journal, 6))
        #expect(record.saved(.saved(revision(7)), writing: token(2), holding: token(2)) == .done)
        #expect(record.lease == nil)
        #expect(record.seen == entry(token(2), 7))
    }

    @Test func aLeaseAloneLeavesTheToken() {
        var record = loaded()
        #expect(record.leased(.granted(lease(6)), writing: nil, holding: token(1)) == .begin)
        #expect(record.seen == entry(token(1), 6))
        let journal = token(1, attempt: true)
        #expect(record.leased(.granted(lease(7)), writing: journal, holding: token(1)) == .begin)
        #expect(record.lease == lease(7))
    }

    @Test func whoeverIsSecondAdopts() {
        var record = loaded()
        #expect(record.leased(.held(for: .seconds(9)), writing: nil, holding: token(1)) == .wait(.seconds(9)))
        #expect(record.revision == revision(5), "who waits knows nothing new")
        #expect(record.leased(.changed(entry(token(2), 8)), writing: nil, holding: token(1)) == .adopt(token(2)))
        #expect(record.revision == revision(8))
        #expect(record.leased(.granted(lease(9)), writing: nil, holding: token(2)) == .begin)
    }

    @Test func theJournalOfADeadHolderIsSeenBeforeTheLeaseIsGranted() {
        var record = loaded()
        let journal = entry(token(1, attempt: true), 6)
        #expect(record.leased(.changed(journal), writing: nil, holding: token(1)) == .again)
        #expect(record.seen == journal)
        #expect(record.lease == nil)
        #expect(record.leased(.granted(lease(7)), writing: nil, holding: token(1)) == .begin)
        #expect(record.seen.token?.attempt != nil)
    }

    @Test(arguments: [nil, StoredToken.revoked(generation: 1, at: UnixTime(milliseconds: 9))] as [StoredToken?])
    func whatAnOperatorTookAwayIsNotRenewed(left: StoredToken?) {
        var record = loaded()
        #expect(record.change(to: entry(left, 6), holding: token(1)) == .withdrawn)
        #expect(record.leased(.changed(entry(left, 6)), writing: nil, holding: token(1)) == .withdrawn)
        // It is known then.
        #expect(record.change(to: entry(left, 6), holding: left) == .none)
    }

    @Test(arguments: [nil, StoredToken.revoked(generation: 1, at: UnixTime(milliseconds: 9))] as [StoredToken?])
    func whatAnOperatorTookAwayIsNotCommitted(left: StoredToken?) {
        var record = loaded()
        #expect(record.leased(.granted(lease(6)), writing: nil, holding: token(1)) == .begin)
        let taken = entry(left, 7)
        #expect(record.saved(.changed(taken), writing: token(2), holding: token(2)) == .overtaken(taken))
        #expect(record.lease == nil)
    }

    @Test func whoWasTakenOverAdopts() {
        var record = loaded()
        #expect(record.leased(.granted(lease(6)), writing: nil, holding: token(1)) == .begin)
        let theirs = entry(token(3), 9)
        #expect(record.saved(.changed(theirs), writing: token(2), holding: token(2)) == .overtaken(theirs))
        #expect(record.change(to: theirs, holding: token(1)) == .newer(token(3)))
    }

    /// The lease ended while the store was away, and the successor has no token yet: the pair at hand is the only one.
    @Test func aNewPairIsNotLostToASuccessorWithoutOne() {
        var record = loaded()
        let journal = token(1, attempt: true)
        #expect(record.leased(.granted(lease(6)), writing: journal, holding: token(1)) == .begin)
        #expect(record.saved(.changed(entry(journal, 7)), writing: token(2), holding: token(2)) == .again)
        #expect(record.saved(.held(for: .seconds(3)), writing: token(2), holding: token(2)) == .later(.seconds(3)))
        #expect(record.saved(.changed(entry(token(1), 8)), writing: token(2), holding: token(2)) == .again)
        #expect(record.saved(.saved(revision(9)), writing: token(2), holding: token(2)) == .done)
    }

    /// The successor has sent the spent refresh token, was refused, and has dropped it.
    @Test func aNewPairIsNotLostToASuccessorThatWasRefused() {
        func pair(_ number: Int, refreshToken: Secret?) -> StoredToken {
            var pair = token(number)
            pair.token.refreshToken = refreshToken
            return pair
        }
        var record = StoredRecord()
        record.load(entry(pair(1, refreshToken: Secret("one")), 5))
        let (next, rest) = (pair(2, refreshToken: Secret("two")), pair(1, refreshToken: nil))
        #expect(
            record.leased(.granted(lease(6)), writing: nil, holding: pair(1, refreshToken: Secret("one"))) == .begin
        )
        #expect(record.saved(.changed(entry(rest, 9)), writing: next, holding: next) == .again)
        // A gateway without a successor takes note: it does not send that refresh token again.
        var other = StoredRecord()
        other.load(entry(pair(1, refreshToken: Secret("one")), 5))
        #expect(other.change(to: entry(rest, 9), holding: pair(1, refreshToken: Secret("one"))) == .newer(rest))
    }

    @Test func aWriteThatSeemedToFailMayHaveHappened() {
        var record = loaded()
        #expect(record.leased(.granted(lease(6)), writing: nil, holding: token(1)) == .begin)
        // The commit was answered too late; it is tried again.
        let stored = entry(token(2), 7)
        #expect(record.saved(.changed(stored), writing: token(2), holding: token(2)) == .done)
        #expect(record.seen == stored)
    }

    /// The store could not be read, so a token was obtained that needs no refresh token.
    @Test func whatWasNeverReadIsReplaced() {
        var record = StoredRecord()
        #expect(record.saved(.changed(entry(token(1), 5)), writing: token(2), holding: token(2)) == .again)
        #expect(record.revision == revision(5))
        #expect(record.saved(.saved(revision(6)), writing: token(2), holding: token(2)) == .done)
        // Whoever takes the lease first adopts all the same.
        var other = StoredRecord()
        #expect(other.leased(.changed(entry(token(1), 5)), writing: nil, holding: nil) == .adopt(token(1)))
    }

    /// An import was refused. Its write seemed to fail, and did not.
    @Test func whatWasTakenBackIsNotAdopted() {
        var record = loaded()
        record.ignoreOwnWrite(token(9).token)
        #expect(record.change(to: entry(token(9), 6), holding: token(1)) == .none)
        #expect(record.saved(.changed(entry(token(9), 6)), writing: token(1), holding: token(1)) == .again)
        #expect(record.saved(.saved(revision(7)), writing: token(1), holding: token(1)) == .done)
        #expect(
            record.change(to: entry(token(9), 8), holding: token(1)) == .newer(token(9)),
            "somebody brought it again"
        )
    }

    @Test func aRemovalTakesALeaseFirst() {
        var record = loaded()
        #expect(record.leasedForRemoval(.granted(lease(6)), holding: nil) == .again)
        #expect(record.lease == lease(6))
        #expect(record.saved(.saved(revision(7)), writing: nil, holding: nil) == .done)
        #expect(record.seen == entry(nil, 7))
    }

    @Test func aRemovalLeavesWhatOthersBrought() {
        var record = loaded()
        let news = entry(token(2), 6)
        #expect(record.leasedForRemoval(.held(for: .seconds(3)), holding: nil) == .later(.seconds(3)))
        #expect(record.leasedForRemoval(.changed(news), holding: nil) == .overtaken(news))
        #expect(record.leasedForRemoval(.changed(entry(nil, 7)), holding: nil) == .done)
    }

    @Test func aWriteThatFailedIsTriedAgainByTheSameRight() {
        let due = MonotonicTime(nanoseconds: 5)
        #expect(PendingWrite(isOperators: true, due: due) == .operators(due: due))
        #expect(PendingWrite(isOperators: false, due: due) == .own(due: due))
        #expect(PendingWrite.operators(due: due).isOperators && !PendingWrite.own(due: due).isOperators)
        #expect(PendingWrite.none.due == nil && PendingWrite.own(due: due).due == due)
    }

    @Test func aStoreThatWentBackIsNotBelieved() {
        var record = loaded()
        #expect(record.change(to: entry(token(0), 3), holding: token(1)) == .wentBack)
        #expect(record.change(to: .nothing, holding: token(1)) == .wentBack)
        #expect(record.leased(.changed(entry(token(0), 3)), writing: nil, holding: token(1)) == .again)
        #expect(record.revision == revision(3), "the next write names what the store knows")
    }

    @Test func anOperatorsWriteEndsTheLease() {
        var record = loaded()
        #expect(record.leased(.granted(lease(6)), writing: nil, holding: token(1)) == .begin)
        record.replace(with: nil, as: revision(7))
        #expect(record.lease == nil)
        #expect(record.seen == entry(nil, 7))
    }

    @Test func whoeverWaitsAsksAgainSoonAndNotAllAtOnce() {
        #expect(RenewalLease.pause(held: .seconds(20), jitter: 0) == .seconds(1))
        #expect(RenewalLease.pause(held: .seconds(20), jitter: 1) == .milliseconds(1250))
        #expect(RenewalLease.pause(held: .milliseconds(100), jitter: 1) == .milliseconds(125))
        #expect(RenewalLease.pause(held: .zero, jitter: 0) == .milliseconds(10))
        #expect(RenewalLease.prolongedEvery * 3 <= RenewalLease.duration)
    }
}
