import GatewayTokens
import Testing

@Suite("A change of a record", .timeLimit(.minutes(1)))
struct TokenChangeTests {
    private func change(_ revision: Int64?) -> TokenChange {
        TokenChange(CredentialKey(digest: "key"), revision.map { TokenRevision($0) })
    }

    @Test func theLaterOneIsFollowedInWhateverOrderTheyCome() {
        #expect(change(2).joined(with: nil) == change(2))
        #expect(change(2).joined(with: change(1)) == change(2))
        #expect(change(1).joined(with: change(2)) == change(2))
    }

    @Test func oneWithoutARevisionIsFollowedInAnyCase() {
        #expect(change(nil).joined(with: change(2)) == change(nil))
        #expect(change(2).joined(with: change(nil)) == change(nil))
    }
}
