import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Challenges of a registry", .timeLimit(.minutes(5)))
struct RegistryChallengeTests {
    private func grants() throws -> RegistryGrants {
        let block: FixtureNode = ["realm_hosts": ["auth.example.com"]]
        guard case .tokens(let grants as RegistryGrants) = try decode("registry", block).behavior else {
            throw WrongKind()
        }
        return grants
    }

    private static func challenge(_ realm: String, _ more: [String: String] = [:]) -> AuthChallenge {
        AuthChallenge(scheme: "bearer", parameters: ["realm": realm].merging(more) { $1 })
    }

    private static let pull = challenge(
        "https://auth.example.com/token",
        ["service": "r.example", "scope": "repository:a/b:pull"]
    )
    private static let pullURL = "https://auth.example.com/token?service=r.example&scope=repository%3Aa%2Fb%3Apull"

    @Test(arguments: [
        (pull, pullURL),
        (
            challenge("https://auth.example.com/token?x=1", ["scope": "a:b:pull,push c:d:pull"]),
            "https://auth.example.com/token?x=1&scope=a%3Ab%3Apull%2Cpush&scope=c%3Ad%3Apull"
        ),
        (challenge("https://auth.example.com/token"), "https://auth.example.com/token"),
        (challenge("https://other.example.com/token"), nil), (challenge("http://auth.example.com/token"), nil),
        (challenge("https://auth.example.com:444/token"), nil),
        (challenge("https://auth.example.com@evil.example/"), nil),
        (challenge("https://auth.example.com/'$(id)'"), nil), (challenge("https://auth.example.com/\"<b>"), nil),
        (challenge("//auth.example.com/token"), nil), (challenge("https://auth.example.com/#"), nil),
        (challenge("https://auth.example.com/", ["scope": String(repeating: "a", count: 2048)]), nil),
        (AuthChallenge(scheme: "bearer"), nil),
        (AuthChallenge(scheme: "basic", parameters: ["realm": "https://auth.example.com/"]), nil),
    ])
    func onlyATokenServerOfTheConfigurationIsAsked(_ challenge: AuthChallenge, _ url: String?) throws {
        #expect(try grants().tokenKey(answering: [challenge]) == url)
    }

    @Test(arguments: [
        ("GET", "/v2/library/redis/manifests/7", "library/redis:pull"), ("POST", "/v2/a/blobs/uploads/", "a:push"),
        ("HEAD", "/hub/v2/a/b/tags/list", "a/b:pull"), ("GET", "/v2/a/manifests/blobs/sha256:1", "a/manifests:pull"),
        ("GET", "/v2/", ""), ("GET", "/v2/_catalog", ""), ("GET", "/", ""), ("GET", "/v2/manifests/x", ""),
    ])
    func aPathNamesItsRepository(_ method: String, _ path: String, _ use: String) throws {
        #expect(try grants().requestKey(method: method, path: path) == use)
    }

    @Test func theLengthOfATokenURLIsLimited() throws {
        func key(_ count: Int) throws -> String? {
            let start = "https://auth.example.com/"
            let realm = start + String(repeating: "a", count: count - start.utf8.count)
            return try grants().tokenKey(answering: [Self.challenge(realm)])
        }
        #expect(try key(RegistryRule.longest)?.utf8.count == RegistryRule.longest)
        #expect(try key(RegistryRule.longest + 1) == nil)
    }
}
