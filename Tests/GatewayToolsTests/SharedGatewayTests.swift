import ArgumentParser
import GatewayApp
import GatewayHTTP
import Testing

@testable import GatewayTools

/// What a program gets of a gateway whose files its user cannot read.
@Suite("Gateways of other users", .timeLimit(.minutes(1)))
struct SharedGatewayTests {
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
