import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("Revisions and leases of a record", .timeLimit(.minutes(1)))
struct TokenRecordStateTests {
    private let start = UnixTime(milliseconds: 1000)
    private let key = CredentialKey(digest: "00")

    private func lease(_ value: Int64) -> TokenLease { TokenLease(key: key, revision: TokenRevision(value)) }
    private func allowed(_ value: Int64) -> RecordDecision { .allowed(TokenRevision(value)) }

    @Test func aWriterMustKnowTheLastChange() {
        var state = TokenRecordState()
        #expect(state.write(expecting: .none, at: start) == allowed(1))
        #expect(state.write(expecting: .none, at: start) == .changed)
        #expect(state.write(expecting: TokenRevision(1), at: start) == allowed(2))
        #expect(state.replace() == TokenRevision(3))
        #expect(state.write(expecting: TokenRevision(2), at: start) == .changed)
    }

    @Test func aLeaseKeepsOthersOutUntilItsEnd() {
        var state = TokenRecordState(revision: TokenRevision(5))
        #expect(state.lease(expecting: TokenRevision(4), for: .seconds(20), at: start) == .changed)
        #expect(state.lease(expecting: TokenRevision(5), for: .seconds(20), at: start) == allowed(6))
        // Whatever they know of the record.
        for known in [5, 6] as [Int64] {
            let later = start + .seconds(15)
            #expect(
                state.lease(expecting: TokenRevision(known), for: .seconds(20), at: later) == .held(for: .seconds(5))
            )
            #expect(state.write(expecting: TokenRevision(known), at: later) == .held(for: .seconds(5)))
        }
        let end = start + .seconds(20)
        #expect(state.lease(expecting: TokenRevision(5), for: .seconds(20), at: end) == .changed)
        #expect(state.lease(expecting: TokenRevision(6), for: .seconds(20), at: end) == allowed(7))
        #expect(state.commit(under: lease(6)) == .changed)
        #expect(state.prolong(lease(6), for: .seconds(20), at: end) == .changed)
        state.release(lease(6))
        #expect(state.timeLeft(at: end) == .seconds(20))
        #expect(state.commit(under: lease(7)) == allowed(8))
        #expect(state.timeLeft(at: end) == nil)
    }

    @Test func theHolderWritesAndProlongs() {
        var state = TokenRecordState()
        #expect(state.lease(expecting: .none, for: .seconds(20), at: start) == allowed(1))
        #expect(state.write(under: lease(1)) == allowed(2))
        #expect(state.prolong(lease(2), for: .seconds(20), at: start + .seconds(7)) == allowed(2))
        #expect(state.timeLeft(at: start + .seconds(20)) == .seconds(7))
        // Nobody has changed the record, so a holder that is late loses nothing.
        #expect(state.commit(under: lease(2)) == allowed(3))
    }

    @Test func anOperatorEndsALease() {
        var state = TokenRecordState()
        #expect(state.lease(expecting: .none, for: .seconds(20), at: start) == allowed(1))
        #expect(state.replace() == TokenRevision(2))
        #expect(state.timeLeft(at: start) == nil)
        #expect(state.commit(under: lease(1)) == .changed)
        #expect(state.write(under: lease(1)) == .changed)
    }

    @Test func aReleasedLeaseLeavesTheRevision() {
        var state = TokenRecordState()
        #expect(state.lease(expecting: .none, for: .seconds(20), at: start) == allowed(1))
        state.release(lease(1))
        #expect(state.lease(expecting: TokenRevision(1), for: .seconds(20), at: start) == allowed(2))
    }
}
