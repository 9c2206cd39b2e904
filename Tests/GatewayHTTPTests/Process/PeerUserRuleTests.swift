import GatewayHTTP
import Testing

@Suite("Peers of unix sockets", .timeLimit(.minutes(5)))
struct PeerUserRuleTests {
    @Test func ourOwnUserAndThoseThatAreListedMayConnect() {
        for mapsAllUsers in [true, false] {
            let admits = { PeerUserRule.admits($0, own: 1000, allowed: [0, 7], mapsAllUsers: mapsAllUsers) }
            #expect([1000, 0, 7].allSatisfy { admits($0) })
            #expect(!admits(8))
        }
    }

    /// Every user whom the namespace does not know has this number there.
    @Test func theNumberOfUnknownUsersIsNobodysInANamespace() {
        let admits = { (own: UInt32, allowed: [UInt32], mapsAllUsers: Bool) in
            PeerUserRule.admits(65_534, own: own, allowed: allowed, mapsAllUsers: mapsAllUsers)
        }
        #expect(admits(1000, [65_534], true))
        #expect(!admits(1000, [65_534], false))
        #expect(!admits(65_534, [7], false))
        // The mode of the socket lets in nobody else.
        #expect(admits(65_534, [], false))
    }

    @Test(arguments: [
        (map: "         0          0 4294967295\n", mapsAllUsers: true),
        (map: "0 1000 1\n1 100000 65536\n", mapsAllUsers: false),
        (map: "0 0 1\n1000 1000 1\n", mapsAllUsers: false),
        (map: "", mapsAllUsers: false),
        (map: nil, mapsAllUsers: true),
    ])
    func aMapOfTheWholeRangeKnowsEverybody(map: String?, mapsAllUsers: Bool) {
        #expect(PeerUserRule.mapsAllUsers(map) == mapsAllUsers)
    }
}
