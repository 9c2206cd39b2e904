import GatewayCore
import GatewayTesting
import Testing

@testable import GatewayStrategies

@Suite("Assertions in files", .timeLimit(.minutes(5)))
struct AssertionFileTests {
    private static func block(_ more: [(String, FixtureNode)] = []) -> FixtureNode {
        .mapping(
            [
                ("token_url", "https://id.example.com/token"), ("client_id", "app"), ("client_auth", "assertion"),
            ] + more
        )
    }

    @Test func theFileIsReadWhenTheRequestIsSent() throws {
        let grant = try grant("oauth2_client_credentials", Self.block([("assertion", ["file": "/run/token"])]))
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(
            request.wire == """
                POST https://id.example.com/token

                grant_type=client_credentials&client_id=app&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3A\
                client-assertion-type%3Ajwt-bearer
                """
        )
        #expect(request.fileParameters == [TokenRequest.FileParameter("client_assertion", path: "/run/token")])
        #expect(!grant.sendsSecrets)
        let success = TokenReply(200, #"{"access_token":"new","token_type":"bearer","expires_in":3600}"#)
        try TokenGrantConformance(grant, success: success).check()
    }

    private static let mistakes: [([(String, FixtureNode)], [String])] = [
        ([], ["missing key \"assertion\""]),
        (
            [("assertion", ["path": "/run/token"])],
            ["assertion: missing key \"file\"", "assertion: unknown key \"path\""]
        ),
        (
            [("assertion", ["file": "/run/token"]), ("client_secret", "s")],
            ["client_secret: has no place beside client_auth: assertion"]
        ),
    ]

    @Test(arguments: mistakes)
    func mistakesAreExplained(_ more: [(String, FixtureNode)], _ expected: [String]) throws {
        #expect(try problems("oauth2_client_credentials", Self.block(more)) == expected)
    }

    @Test func aFileOfAnotherMethodIsAMistake() throws {
        let block: FixtureNode = [
            "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s",
            "assertion": ["file": "/run/token"],
        ]
        #expect(try problems("oauth2_client_credentials", block) == ["assertion: is for client_auth: assertion"])
    }

    @Test func anotherFileMakesAnotherToken() throws {
        let grants = try ["/run/a", "/run/b"].map {
            try grant("oauth2_client_credentials", Self.block([("assertion", ["file": "\($0)"])]))
        }
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }
}
