import GatewayCore
import Synchronization
import Testing

@Suite("Credentials of a registry", .timeLimit(.minutes(5)))
struct RegistryCredentialsTests {
    private static let rule = RegistryRule(realmHosts: ["auth.example.com"])
    private static let now = MonotonicTime(nanoseconds: 1)

    private static func challenge(_ realm: String, _ more: [String: String] = [:]) -> AuthChallenge {
        AuthChallenge(scheme: "bearer", parameters: ["realm": realm].merging(more) { $1 })
    }

    private static let pull = challenge(
        "https://auth.example.com/token",
        ["service": "r.example", "scope": "repository:a/b:pull"]
    )
    private static let pullURL = "https://auth.example.com/token?service=r.example&scope=repository%3Aa%2Fb%3Apull"

    // MARK: Challenges

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
    func onlyATokenServerOfTheConfigurationIsAsked(_ challenge: AuthChallenge, _ url: String?) {
        #expect(Self.rule.tokenURL(answering: [challenge]) == url)
    }

    @Test(arguments: [
        (true, "/v2/library/redis/manifests/7", "library/redis:pull"), (false, "/v2/a/blobs/uploads/", "a:push"),
        (true, "/hub/v2/a/b/tags/list", "a/b:pull"), (true, "/v2/a/manifests/blobs/sha256:1", "a/manifests:pull"),
        (true, "/v2/", ""), (true, "/v2/_catalog", ""), (true, "/", ""), (true, "/v2/manifests/x", ""),
    ])
    func aPathNamesItsRepository(_ isRead: Bool, _ path: String, _ place: String) {
        #expect(RegistryRule.place(isRead: isRead, path: path) == place)
    }

    // MARK: Sources

    /// Has a token for each URL.
    private final class Tokens: SubjectCredentialResolver {
        let name = "hub"
        let strategy = "registry"
        let grantKey = CredentialKey(digest: "01")
        let field: String? = nil
        let asked = Mutex<[String]>([])

        func source(for subject: String, client: String?) -> Result<any CredentialSource, GatewayProblem> {
            asked.withLock { $0.append(subject) }
            let injection = Injection.authorization(scheme: "Bearer", Secret(subject))
            return .success(FixedCredentialSource(name: name, strategy: strategy, injection: injection))
        }

        func look(for subject: String) -> Result<(any CredentialSource)?, GatewayProblem> {
            source(for: subject, client: nil).map { $0 }
        }
    }

    private static func source(
        _ credentials: RegistryCredentials,
        _ place: String = "a/b:pull",
        client: String? = nil
    ) throws -> RegistryCredentialSource {
        try #require(credentials.source(for: place, client: client).get() as? RegistryCredentialSource)
    }

    private static func sent(_ source: RegistryCredentialSource) -> Injection? {
        guard case .ready(let credential) = source.current(at: now) else { return nil }
        return credential.injection
    }

    private static let bearer = Injection.authorization(scheme: "Bearer", Secret(pullURL))

    @Test func aRequestGoesWithoutATokenUntilOneIsAskedFor() throws {
        let tokens = Tokens()
        let source = try Self.source(RegistryCredentials(tokens, Self.rule))
        #expect(Self.sent(source) == Injection())
        #expect(tokens.asked.withLock { $0 } == [])
        #expect(source.answer([Self.pull], to: 0) == .answered)
        #expect(Self.sent(source) == Self.bearer)
    }

    @Test func theTokenGoesWithLaterRequestsForTheSameRepositoryAtOnce() throws {
        let credentials = RegistryCredentials(Tokens(), Self.rule)
        #expect(try Self.source(credentials).answer([Self.pull], to: 0) == .answered)
        #expect(try Self.sent(Self.source(credentials)) == Self.bearer)
        #expect(try Self.sent(Self.source(credentials, "a/c:pull")) == Injection())
        #expect(try Self.sent(Self.source(credentials, "a/b:push")) == Injection())
        #expect(try Self.sent(Self.source(credentials, client: "ada")) == Injection())
        #expect(try Self.sent(Self.source(RegistryCredentials(Tokens(), Self.rule))) == Injection())
    }

    @Test func theSameChallengeAgainRejectsTheToken() throws {
        let source = try Self.source(RegistryCredentials(Tokens(), Self.rule))
        #expect(source.answer([Self.pull], to: 0) == .answered)
        // A request that was sent before the first answer came.
        #expect(source.answer([Self.pull], to: 0) == .answered)
        #expect(source.answer([Self.pull], to: 1) == .rejected)
        let more = Self.challenge("https://auth.example.com/token", ["scope": "repository:a/b:pull,push"])
        #expect(source.answer([more], to: 1) == .answered)
    }

    @Test func aChallengeOfAnotherHostChangesNothing() throws {
        let tokens = Tokens()
        let source = try Self.source(RegistryCredentials(tokens, Self.rule))
        #expect(source.answer([Self.challenge("https://evil.example/token")], to: 0) == .unanswered)
        #expect(Self.sent(source) == Injection())
        #expect(source.answer([Self.pull], to: 0) == .answered)
        #expect(source.answer([Self.challenge("https://evil.example/token")], to: 1) == .unanswered)
        #expect(Self.sent(source) == Self.bearer)
    }

    @Test func thereIsABoundForRepositories() throws {
        let credentials = RegistryCredentials(Tokens(), Self.rule)
        let first = try Self.source(credentials)
        for number in 0..<300 { _ = try Self.source(credentials, "r\(number):pull") }
        #expect(try Self.source(credentials) !== first)
    }
}
