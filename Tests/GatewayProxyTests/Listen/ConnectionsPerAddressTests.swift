import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Connections of an address", .timeLimit(.minutes(5)))
struct ConnectionsPerAddressTests {
    private static func v6(_ head: [UInt8], _ tail: [UInt8] = []) -> [UInt8] {
        head + Array(repeating: 0, count: 16 - head.count - tail.count) + tail
    }

    @Test(
        arguments: [
            ([127, 0, 0, 1], "loopback"), ([127, 9, 9, 9], "loopback"), (v6([], [1]), "loopback"),
            (v6([], [0xFF, 0xFF, 127, 0, 0, 1]), "mapped loopback"), ([], "nothing"), ([1, 2, 3], "three bytes"),
            (Array(repeating: 1, count: 17), "seventeen bytes"),
        ] as [([UInt8], String)]
    )
    func someAddressesAreNotCounted(_ address: [UInt8], _ reason: String) {
        #expect(PeerAddressKey(address) == nil, "\(reason)")
    }

    @Test(
        arguments: [
            ([192, 0, 2, 7], [192, 0, 2, 7], true), ([192, 0, 2, 7], [192, 0, 2, 8], false),
            ([192, 0, 2, 7], v6([], [0xFF, 0xFF, 192, 0, 2, 7]), true),
            (v6([0x20, 1, 0xD, 0xB8, 0, 0, 0, 1], [1]), v6([0x20, 1, 0xD, 0xB8, 0, 0, 0, 1, 9], [2]), true),
            (v6([0x20, 1, 0xD, 0xB8, 0, 0, 0, 1], [1]), v6([0x20, 1, 0xD, 0xB8, 0, 0, 0, 2], [1]), false),
            // The numbers are equal, the addresses are not.
            ([0, 0, 0, 9], v6([0, 0, 0, 0, 0, 0, 0, 9]), false),
        ] as [([UInt8], [UInt8], Bool)]
    )
    func whatCountsAsOneAddress(_ one: [UInt8], _ other: [UInt8], _ isSame: Bool) throws {
        let keys = (try #require(PeerAddressKey(one)), try #require(PeerAddressKey(other)))
        #expect((keys.0 == keys.1) == isSame)
    }

    @Test func anAddressHasItsMaximumAndNoMore() throws {
        let connections = ConnectionsPerAddress(capacity: 10)
        let key = try #require(PeerAddressKey([192, 0, 2, 7]))
        let other = try #require(PeerAddressKey([192, 0, 2, 8]))
        #expect(connections.open(key, maximum: 2))
        #expect(connections.open(key, maximum: 2))
        #expect(!connections.open(key, maximum: 2))
        #expect(connections.open(other, maximum: 2))
        connections.close(key)
        #expect(connections.open(key, maximum: 2))
        // A reload may lower the maximum; those that are open stay.
        connections.close(key)
        #expect(!connections.open(key, maximum: 1))
        #expect(connections.open(key, maximum: 3))
    }

    @Test func anAddressWithoutConnectionsTakesNoMemory() throws {
        let connections = ConnectionsPerAddress(capacity: 2)
        let keys = try (1...3).map { try #require(PeerAddressKey([192, 0, 2, $0])) }
        #expect(connections.open(keys[0], maximum: 9))
        #expect(connections.open(keys[1], maximum: 9))
        #expect(!connections.open(keys[2], maximum: 9))
        #expect(connections.open(keys[0], maximum: 9))
        #expect(connections.addresses == 2)
        connections.close(keys[1])
        #expect(connections.open(keys[2], maximum: 9))
        for key in [keys[0], keys[0], keys[0], keys[2], keys[1]] { connections.close(key) }
        #expect(connections.addresses == 0)
    }
}
