import Synchronization
import Testing

@testable import GatewayHTTP
@testable import GatewayTokens

@Suite("Credentials that challenges ask for", .timeLimit(.minutes(5)))
struct ChallengeTokenCredentialsTests {
    /// Answers challenges of one host; their realm and scope are the token's key.
    private struct Rule: ChallengeRule {
        func requestKey(method: String, path: String) -> String { "\(path):\(method)" }

        func tokenKey(answering challenges: [AuthChallenge]) -> String? {
            challenges.compactMap(\.parameters["realm"]).first { $0.hasPrefix("https://auth.example.com/") }
                .map { "\($0)?\(challenges[0].parameters["scope"] ?? "")" }
        }
    }

    private static let rule = Rule()
    private static let now = MonotonicTime(nanoseconds: 1)

    private static func challenge(_ realm: String, _ more: [String: String] = [:]) -> AuthChallenge {
        AuthChallenge(scheme: "bearer", parameters: ["realm": realm].merging(more) { $1 })
    }

    private static let pull = challenge(
        "https://auth.example.com/token",
        ["service": "r.example", "scope": "repository:a/b:pull"]
    )
    private static let pullKey = "https://auth.example.com/token?repository:a/b:pull"

    // MARK: Sources

    /// Has a token for each key.
    private final class Tokens: SubjectCredentialResolver {
        let name = "hub"
        let strategy = "registry"
        let grantKey = CredentialKey(digest: "01")
        let naming = TokenNaming.challenge(Rule())
        let asked = Mutex<[String]>([])
        let isLocked = Mutex(false)
        var lockedProblem: GatewayProblem? { isLocked.withLock { $0 } ? .locked(name) : nil }

        func source(for subject: String, client: String?) -> Result<any CredentialSource, GatewayProblem> {
            asked.withLock { $0.append(subject) }
            let injection = Injection.authorization(scheme: "Bearer", Secret(subject))
            return .success(FixedCredentialSource(name: name, strategy: strategy, injection: injection))
        }

        func look(for subject: String, client: String?) -> Result<(any CredentialSource)?, GatewayProblem> {
            source(for: subject, client: client).map { $0 }
        }
    }

    private static func source(
        _ credentials: ChallengeTokenCredentials,
        _ request: String = "a/b:pull",
        client: String? = nil
    ) throws -> ChallengeTokenSource {
        try #require(credentials.source(for: request, client: client).get() as? ChallengeTokenSource)
    }

    private static func sent(_ source: ChallengeTokenSource) -> Injection? {
        guard case .ready(let credential) = source.current(at: now) else { return nil }
        return credential.injection
    }

    private static let bearer = Injection.authorization(scheme: "Bearer", Secret(pullKey))

    @Test func aRequestGoesWithoutATokenUntilOneIsAskedFor() throws {
        let tokens = Tokens()
        let source = try Self.source(ChallengeTokenCredentials(tokens, Self.rule))
        #expect(Self.sent(source) == Injection())
        #expect(tokens.asked.withLock { $0 } == [])
        #expect(source.answer([Self.pull], to: 0) == .answered)
        #expect(Self.sent(source) == Self.bearer)
    }

    @Test func theTokenGoesWithLaterRequestsForTheSameRepositoryAtOnce() throws {
        let credentials = ChallengeTokenCredentials(Tokens(), Self.rule)
        #expect(try Self.source(credentials).answer([Self.pull], to: 0) == .answered)
        #expect(try Self.sent(Self.source(credentials)) == Self.bearer)
        #expect(try Self.sent(Self.source(credentials, "a/c:pull")) == Injection())
        #expect(try Self.sent(Self.source(credentials, "a/b:push")) == Injection())
        #expect(try Self.sent(Self.source(credentials, client: "ada")) == Injection())
        #expect(try Self.sent(Self.source(ChallengeTokenCredentials(Tokens(), Self.rule))) == Injection())
    }

    @Test func theSameChallengeAgainRejectsTheToken() throws {
        let source = try Self.source(ChallengeTokenCredentials(Tokens(), Self.rule))
        #expect(source.answer([Self.pull], to: 0) == .answered)
        // A request that was sent before the first answer came.
        #expect(source.answer([Self.pull], to: 0) == .answered)
        #expect(source.answer([Self.pull], to: 1) == .rejected)
        let more = Self.challenge("https://auth.example.com/token", ["scope": "repository:a/b:pull,push"])
        #expect(source.answer([more], to: 1) == .answered)
    }

    @Test func aChallengeOfAnotherHostChangesNothing() throws {
        let tokens = Tokens()
        let source = try Self.source(ChallengeTokenCredentials(tokens, Self.rule))
        #expect(source.answer([Self.challenge("https://evil.example/token")], to: 0) == .unanswered)
        #expect(Self.sent(source) == Injection())
        #expect(source.answer([Self.pull], to: 0) == .answered)
        #expect(source.answer([Self.challenge("https://evil.example/token")], to: 1) == .unanswered)
        #expect(Self.sent(source) == Self.bearer)
    }

    @Test func aLockedCredentialSendsNothingNotEvenARequestWithoutAToken() throws {
        let tokens = Tokens()
        let credentials = ChallengeTokenCredentials(tokens, Self.rule)
        let source = try Self.source(credentials)
        tokens.isLocked.withLock { $0 = true }
        for request in ["a/b:pull", "a/new:pull"] {
            #expect(throws: GatewayProblem.locked("hub")) { try credentials.source(for: request, client: nil).get() }
            #expect(throws: GatewayProblem.locked("hub")) { try credentials.look(for: request, client: nil).get() }
        }
        guard case .unavailable(.locked("hub")) = source.outlook(at: Self.now) else {
            Issue.record("explain shows a request that is not sent")
            return
        }
    }

    @Test func thereIsABoundForTheRepositoriesOfEachClient() throws {
        let credentials = ChallengeTokenCredentials(Tokens(), Self.rule)
        let (own, other) = (try Self.source(credentials, client: "ada"), try Self.source(credentials, client: "ben"))
        for number in 0..<300 { _ = try Self.source(credentials, "r\(number):pull", client: "ada") }
        #expect(try Self.source(credentials, client: "ada") !== own)
        #expect(try Self.source(credentials, client: "ben") === other)
    }

    @Test func toLookFindsTheSourceOfTheSameClientAlone() throws {
        let credentials = ChallengeTokenCredentials(Tokens(), Self.rule)
        let sources = try ["ada", "ben", nil].map { try Self.source(credentials, client: $0) }
        for (client, source) in zip(["ada", "ben", nil], sources) {
            #expect(try credentials.look(for: "a/b:pull", client: client).get() === source)
        }
        #expect(try credentials.look(for: "a/b:pull", client: "eve").get() == nil)
        #expect(try credentials.look(for: "a/c:pull", client: "ada").get() == nil)
    }

    // MARK: Bounds

    @Test func theNumberOfSourcesOfAClientIsLimited() throws {
        let credentials = ChallengeTokenCredentials(Tokens(), Self.rule)
        func isKnown(_ request: String, _ client: String) -> Bool {
            (try? credentials.look(for: request, client: client).get()) != nil
        }
        _ = try Self.source(credentials, "r0", client: "other")
        for number in 1...ChallengeTokenCredentials.maximumSources {
            _ = try Self.source(credentials, "r\(number)", client: "ci")
        }
        #expect(isKnown("r1", "ci"))
        _ = try Self.source(credentials, "one more", client: "ci")
        #expect(!isKnown("r1", "ci") && isKnown("one more", "ci"))
        #expect(isKnown("r0", "other"), "another client keeps its own")
    }
}
