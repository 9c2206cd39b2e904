import ArgumentParser
import GatewayApp
import GatewayHTTP
import Testing

@testable import GatewayTools

/// What a program gets of a gateway whose files its user cannot read.
@Suite("Gateways of other users", .timeLimit(.minutes(1)))
struct SharedGatewayTests {
    private static let table = """
          sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
           0: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000   990        0 1 1 0 100 0 0 10 0
           1: 0200007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2 1 0 100 0 0 10 0
           2: 0100007F:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0
           3: 0100007F:1F91 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1001        0 4 1 0 20 4 30 10 -1
           4: 00000000000000000000000001000000:1F93 00000000000000000000000000000000:0000 0A 0:0 00:0 0 x 0 5

        """

    @Test(
        arguments: [
            (8081, [990, 1000]), (8082, [0]), (8083, [.max]), (40000, []), (9, []),
        ] as [(Int, Set<UInt32>)]
    )
    func everyListenerAtAPortCounts(_ port: Int, _ owners: Set<UInt32>) {
        #expect(ListeningSockets.owners(of: port, in: Self.table) == owners)
    }

    @Test func eachGatewayHasAFolderForItsCertificates() {
        func folder(cache: String?, home: String?) -> String? {
            SharedGateway.lastingFolder(for: "http://[::1]:8081", cache: cache, home: home)
        }
        #expect(folder(cache: "/c", home: "/h") == "/c/authgateway/http------1--8081")
        #expect(folder(cache: nil, home: "/h") == "/h/.cache/authgateway/http------1--8081")
        #expect(folder(cache: "relative", home: "/h") == folder(cache: nil, home: "/h"))
        #expect(folder(cache: nil, home: nil) == nil && folder(cache: "", home: "relative") == nil)
        let odd = SharedGateway.lastingFolder(for: "unix:/x/../é", cache: "/c", home: nil)
        #expect(odd == "/c/authgateway/unix--x-..--")
    }

    @Test(arguments: [[], ["--client", "alice"]])
    func withoutAConfigurationAUserBringsTheToken(_ arguments: [String]) throws {
        let source = try ClientTokenSource.parse(arguments)
        let failure = #expect(throws: CommandFailure.self) {
            try source.proof(configuration: nil, clients: ["alice"], isNeeded: true)
        }
        #expect(failure?.status == .usage && failure?.description.contains("--client-token-file FILE") == true)
    }

    @Test func namesThatAGatewaySendsCannotDriveATerminal() throws {
        let source = try ClientTokenSource.parse(["--client", "bob"])
        let failure = #expect(throws: CommandFailure.self) {
            try source.proof(configuration: nil, clients: ["a\u{1b}[31m", "b\nc"], isNeeded: true)
        }
        #expect(failure?.description.contains("names a\\u{1b}[31m, b\\u{a}c") == true)
    }

    @Test func noTokenIsNeededWhereTheListenerAsksForNone() throws {
        #expect(try ClientTokenSource.parse([]).proof(configuration: nil, clients: [], isNeeded: false) == nil)
    }

    @Test func aGatewayOfItsOwnIsNoneThatRuns() {
        #expect(throws: (any Error).self) {
            try ExecCommand.parse(["--ephemeral", "--admin", "https://gateway.example.com:8444", "--", "true"])
        }
        #expect(throws: Never.self) {
            try ExecCommand.parse(["--admin", "https://gateway.example.com:8444", "--", "true"])
        }
    }
}
