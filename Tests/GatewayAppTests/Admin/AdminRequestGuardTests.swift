import HTTPTypes
import Testing

@testable import GatewayApp

@Suite(.timeLimit(.minutes(5)))
struct AdminRequestGuardTests {
    private let guardian = AdminRequestGuard(host: "127.0.0.1")

    @Test(arguments: ["127.0.0.1:8081", "localhost:8081", "LOCALHOST:8081", "[::1]:8081"])
    func ownNamesPass(_ authority: String) {
        #expect(guardian.decision(authority: authority, port: 8081, fields: [:]) == .pass)
    }

    @Test(arguments: [
        "evil.example:8081", "127.0.0.1", "127.0.0.1:80811", "127.0.0.1:8080", "localhost.evil.example:8081",
        "evil@127.0.0.1:8081", "127.0.0.1:8081.evil.example", "", ":8081",
    ])
    func otherNamesAreMisdirected(_ authority: String) {
        #expect(guardian.decision(authority: authority, port: 8081, fields: [:]) == .misdirected)
    }

    @Test func aRequestWithoutAHostIsMisdirected() {
        #expect(guardian.decision(authority: nil, port: 8081, fields: [:]) == .misdirected)
    }

    @Test func theDefaultPortMayBeLeftOut() {
        #expect(guardian.decision(authority: "localhost", port: 80, fields: [:]) == .pass)
    }

    @Test func onAUnixSocketAnyNameWillDoButNoOtherSite() {
        let guardian = AdminRequestGuard(host: nil)
        for authority in ["localhost", "gateway.example", nil] {
            #expect(guardian.decision(authority: authority, port: 0, fields: [:]) == .pass)
            let fields: HTTPFields = [.origin: "https://evil.example"]
            #expect(guardian.decision(authority: authority, port: 0, fields: fields) == .originRefused)
        }
    }

    @Test(arguments: ["https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8081"])
    func aForeignOriginIsRefused(_ origin: String) {
        let fields: HTTPFields = [.origin: origin]
        #expect(guardian.decision(authority: "127.0.0.1:8081", port: 8081, fields: fields) == .originRefused)
    }

    @Test func theOwnOriginPasses() {
        let fields: HTTPFields = [.origin: "http://127.0.0.1:8081"]
        #expect(guardian.decision(authority: "127.0.0.1:8081", port: 8081, fields: fields) == .pass)
    }

    @Test(arguments: [("cross-site", false), ("same-site", false), ("none", true), ("same-origin", true)])
    func theBrowsersWordOnTheSiteCounts(_ site: String, passes: Bool) throws {
        var fields = HTTPFields()
        fields[try #require(HTTPField.Name("Sec-Fetch-Site"))] = site
        let decision = guardian.decision(authority: "127.0.0.1:8081", port: 8081, fields: fields)
        #expect(decision == (passes ? .pass : .originRefused))
    }
}
