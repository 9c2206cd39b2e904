import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Registry", .timeLimit(.minutes(5)))
struct RegistryTests {
    private static let url = "https://auth.example.com/token?service=r&scope=repository%3Aa%2Fb%3Apull"

    private static func grants(_ more: [(String, FixtureNode)] = []) throws -> RegistryGrants {
        let own: [(String, FixtureNode)] = [("realm_hosts", ["auth.example.com", "127.0.0.1:5001"])]
        guard case .tokens(let grants as RegistryGrants) = try decode("registry", .mapping(own + more)).behavior else {
            throw WrongKind()
        }
        return grants
    }

    private static let account: [(String, FixtureNode)] = [("username", "me"), ("password", "p w")]

    @Test func aTokenIsAskedForWithNamesAndPassword() throws {
        let grant = try Self.grants(Self.account).grant(for: Self.url)
        // base64("me:p w")
        #expect(
            try request(of: grant.firstStep(holding: nil, at: now)).wire
                == "GET \(Self.url)\nAuthorization: Basic bWU6cCB3"
        )
    }

    @Test func withoutAnAccountItIsEverybodysToken() throws {
        let grant = try Self.grants().grant(for: Self.url)
        #expect(try request(of: grant.firstStep(holding: nil, at: now)).wire == "GET \(Self.url)")
    }

    @Test(arguments: [
        (#"{"token":"T","expires_in":300}"#, "T", 300), (#"{"access_token":"T","expires_in":300}"#, "T", 300),
        (#"{"token":"T","access_token":"T"}"#, "T", 60), (#"{"token":"","access_token":"A"}"#, "A", 60),
    ])
    func theTokenHasOneOfTwoNamesAndLivesAMinuteUnlessItSaysMore(_ body: String, _ token: String, _ seconds: Int) throws
    {
        let grant = try Self.grants().grant(for: Self.url)
        let found = try grant.interpret(TokenReply(200, body), holding: nil, at: now).get()
        #expect(found.access == Secret(token))
        #expect(found.expiresAt == now.wall + .seconds(seconds))
        #expect(grant.injection(of: found).wire == ["Authorization: Bearer \(token)"])
    }

    @Test(arguments: [
        (401, true, "check username and password", false), (401, false, "it requires username and password", true),
        (302, true, "never followed", true), (404, true, "check realm_hosts", true),
    ])
    func aRefusalSaysWhatToCheck(_ status: Int, _ hasAccount: Bool, _ words: String, _ isRetried: Bool) throws {
        let grant = try Self.grants(hasAccount ? Self.account : []).grant(for: Self.url)
        let failure = try #require(grant.interpret(TokenReply(status, "{}"), holding: nil, at: now).failure)
        #expect(failure.problem.detail.contains(words), "\(failure.problem.detail)")
        #expect(failure.isRetried == isRetried)
    }

    @Test func aBusyServerIsAskedAgain() throws {
        let failure = try Self.grants().grant(for: Self.url)
            .interpret(TokenReply(429, "", ["Retry-After": "7"]), holding: nil, at: now).failure
        #expect(failure?.class == .transient(retryAfter: .seconds(7)))
    }

    @Test(arguments: [
        (Self.url, true), ("http://127.0.0.1:5001/token", true), ("https://AUTH.example.com/x", true),
        ("https://other.example.com/token", false), ("http://auth.example.com/token", false),
        ("https://auth.example.com:8443/token", false), ("https://me@auth.example.com/token", false),
        ("https://auth.example.com.evil.example/token", false), ("https://auth.example.com/#x", false), ("42", false),
        ("", false),
    ])
    func nothingIsSentToAnotherHost(_ url: String, _ isSubject: Bool) throws {
        let grants = try Self.grants(Self.account)
        #expect((grants.refusal(of: url, credential: "hub") == nil) == isSubject)
        if !isSubject, case .request = grants.grant(for: url).firstStep(holding: nil, at: now) {
            Issue.record("asked \(url)")
        }
    }

    @Test func mistakesAreNamed() throws {
        #expect(try problems("registry", [:]) == ["missing key \"realm_hosts\""])
        #expect(try problems("registry", ["realm_hosts": []]) == ["realm_hosts: names no host"])
        #expect(
            try problems("registry", ["realm_hosts": ["https://auth.example.com/token"]])
                == ["realm_hosts: expected hosts such as auth.docker.io or auth.example.com:8443"]
        )
        #expect(
            try problems("registry", ["realm_hosts": ["a.example"], "username": "me"]) == [
                "username and password belong together; one of them is missing"
            ]
        )
        #expect(
            try problems("registry", ["realm_hosts": ["a.example"], "username": "a:b", "password": "p"])
                == ["username: must not contain \":\", which ends the user name (RFC 7617)"]
        )
    }

    @Test func tokensAreTheirAccounts() throws {
        let (mine, all) = (try Self.grants(Self.account), try Self.grants())
        #expect(mine.identity.canonicalBytes != all.identity.canonicalBytes)
        #expect(!mine.storesTokens && mine.naming.field == nil)
    }
}
