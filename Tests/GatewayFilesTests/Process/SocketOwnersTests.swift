import GatewayFiles
import GatewayHTTP
import Testing

@Suite("Whose sockets these are", .timeLimit(.minutes(1)))
struct SocketOwnersTests {
    private static let table = """
          sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
           0: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000   990        0 1 1 0 100 0 0 10 0
           1: 0200007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2 1 0 100 0 0 10 0
           2: 0100007F:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0
           3: 00000000000000000000000001000000:1F93 00000000000000000000000000000000:0000 0A 0:0 00:0 0 x 0 5
           4: 0100007F:1F91 0100007F:9C40 01 00000000:00000000 00:00000000 00000000   990        0 4 1 0 20 4 30 10 -1
           5: 0100007F:9C40 0100007F:1F91 01 00000000:00000000 00:00000000 00000000  1001        0 5 1 0 20 4 30 10 -1
           6: 0200007F:9C40 0100007F:1F91 01 00000000:00000000 00:00000000 00000000  1002        0 6 1 0 20 4 30 10 -1
           7: 0100007F:9C41 0100007F:1F91 06 00000000:00000000 00:00000000 00000000     0        0 0 3 00000000
           8: 0000000000000000FFFF00000100007F:9C42 0000000000000000FFFF00000100007F:1F91 01 0:0 00:0 0 1003 0 7
           9: 00000000000000000000000001000000:9C43 00000000000000000000000001000000:1F91 01 0:0 00:0 0 1004 0 8
        """

    private static let lines = table.split(separator: "\n").map(String.init)

    @Test(
        arguments: [
            (8081, [990, 1000]), (8082, [0]), (8083, [.max]), (40000, []), (9, []),
        ] as [(Int, Set<UInt32>)]
    )
    func everyListenerAtAPortCounts(_ port: Int, _ owners: Set<UInt32>) {
        #expect(SocketOwners.listening(at: port, in: Self.lines) == owners)
    }

    /// Both ends have to be the same, down to the address: who takes the port of another address is not that user.
    @Test(
        arguments: [
            ("127.0.0.1", 40000, 1001), ("127.0.0.2", 40000, 1002), ("127.0.0.3", 40000, nil),
            ("127.0.0.1", 40001, nil),
            ("127.0.0.1", 40002, 1003), ("::1", 40003, 1004), ("127.0.0.1", 9, nil),
        ] as [(String, Int, UInt32?)]
    )
    func theUserOfAConnectionIsThatOfTheClientsEnd(_ address: String, _ port: Int, _ owner: UInt32?) throws {
        let server = try #require(IPAddress(address == "::1" ? "::1" : "127.0.0.1"))
        let client = try #require(IPAddress(address))
        #expect(SocketOwners.connected((client, port), to: (server, 8081), in: Self.lines) == owner)
        #expect(SocketOwners.connected((client, port), to: (server, 8082), in: Self.lines) == nil)
    }
}
