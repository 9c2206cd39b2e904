import Synchronization
import Testing

@testable import GatewayEvents
@testable import GatewayHTTP
@testable import GatewayTokens

@Suite("Static credentials", .timeLimit(.minutes(1)))
struct FixedCredentialSourceTests {
    private static let now = MonotonicTime(nanoseconds: 0)
    private static let injection = Injection.authorization(scheme: "Basic", Secret("YTpw"))

    private static func source(generation: Int = 1) -> FixedCredentialSource {
        FixedCredentialSource(name: "openai", strategy: "basic", injection: injection, generation: generation)
    }

    /// nil where the source offers nothing.
    private static func sent(_ source: any CredentialSource) -> Injection? {
        guard case .ready(let credential) = source.current(at: now), credential.isOffered(at: now) else { return nil }
        return credential.injection
    }

    private static func waited(_ source: any CredentialSource) -> Result<Credential, GatewayProblem>? {
        let answer = Mutex<Result<Credential, GatewayProblem>?>(nil)
        let demand = CredentialRequest(route: "a", client: nil, requestID: "1")
        _ = source.wait(for: demand) { result in answer.withLock { $0 = result } }
        return answer.withLock { $0 }
    }

    // MARK: Locks

    @Test func whatIsLockedIsOfferedToNobodyUntilItIsUnlocked() throws {
        let source = Self.source()
        guard case .ready(let credential) = source.current(at: Self.now) else { throw Unexpected() }
        #expect(source.lock())
        #expect(!credential.isOffered(at: Self.now), "an event loop keeps what it was given last")
        #expect(Self.sent(source) == nil)
        guard case .failure(let problem)? = Self.waited(source) else { throw Unexpected() }
        #expect(problem.kind == .locked && problem.command == "authgateway token unlock openai")
        #expect(source.timesWithdrawn == 1)
        #expect(!source.lock() && source.timesWithdrawn == 1)
        source.unlock()
        #expect(Self.sent(source) == Self.injection && credential.isOffered(at: Self.now))
    }

    @Test func aLockHoldsOnEveryRouteThatAnswersChallenges() throws {
        let shared = Self.source(generation: ChallengeCredentialSource.fullGeneration)
        let routes = (0..<2).map { _ in ChallengeCredentialSource(shared, realm: nil) }
        let challenges = [AuthChallenge(scheme: "basic")]
        #expect(routes[0].answer(challenges, to: 1) == .answered)
        guard case .ready(let full) = routes[0].current(at: Self.now),
            case .ready(let bare) = routes[1].current(at: Self.now)
        else { throw Unexpected() }
        #expect(full.injection == Self.injection && bare.injection == Injection())
        shared.lock()
        for route in routes {
            #expect(Self.sent(route) == nil && route.timesWithdrawn == 1)
            guard case .failure(let problem)? = Self.waited(route) else { throw Unexpected() }
            #expect(problem.kind == .locked)
        }
        #expect(!full.isOffered(at: Self.now) && !bare.isOffered(at: Self.now))
        // A challenge that comes meanwhile shows nothing.
        #expect(routes[1].answer(challenges, to: 1) == .answered)
        #expect(Self.sent(routes[1]) == nil)
        shared.unlock()
        #expect(Self.sent(routes[0]) == Self.injection && Self.sent(routes[1]) == Self.injection)
    }

    // MARK: Status

    private static let moment = Moment(
        monotonic: MonotonicTime(nanoseconds: 60_000_000_000),
        wall: UnixTime(seconds: 1_700_000_060)
    )

    private static func status(_ source: FixedCredentialSource) -> TokenStatus {
        TokenStatus(
            of: source,
            origin: SecretOrigin(words: "the environment variable OPENAI_API_KEY (gateway.yaml:12)", isVariable: true),
            at: moment
        )
    }

    private static func reject(_ source: FixedCredentialSource, _ count: Int) {
        for number in 0..<count {
            let at = MonotonicTime(nanoseconds: Int64(number) * 1_000_000_000)
            source.rejected(by: "build", ledgerKey("/a"), status: 401, at: at)
        }
    }

    @Test func itsStatusSaysWhenItWasAcceptedAndRejectedLast() {
        let source = Self.source()
        #expect(Self.status(source).lastAcceptedAt == nil && Self.status(source).state == .valid)
        source.accepted(by: nil, nil, at: MonotonicTime(nanoseconds: 30_000_000_000))
        Self.reject(source, 2)
        let status = Self.status(source)
        #expect(status.lastAcceptedAt == UnixTime(seconds: 1_700_000_030).rfc3339)
        #expect(status.lastRejectedAt == UnixTime(seconds: 1_700_000_001).rfc3339)
        #expect(status.isStatic == true && !status.needsPerson && status.isServed)
    }

    @Test func whatIsRejectedAllTheTimeNeedsAPersonAndNamesItsPlace() {
        let source = Self.source()
        Self.reject(source, 5)
        let status = Self.status(source)
        #expect(status.state == .rejected && status.needsPerson && source.awaitsAcceptance)
        let text = status.lastError ?? ""
        #expect(text.contains("answered 401 to 5 requests in a row from the client build"))
        #expect(text.contains("from the environment variable OPENAI_API_KEY (gateway.yaml:12)"))
        #expect(text.contains("Replace it and restart the gateway.") && status.action == nil)
        // A report that blocks nothing.
        #expect(Self.sent(source) == Self.injection)
        source.accepted(by: "build", nil, at: Self.moment.monotonic)
        #expect(Self.status(source).state == .valid && !source.awaitsAcceptance)
    }

    @Test func aLockIsSaidFirst() {
        let source = Self.source()
        Self.reject(source, 5)
        source.lock()
        let status = Self.status(source)
        #expect(status.state == .locked && status.action == "authgateway token unlock openai" && status.needsPerson)
    }

    private struct Unexpected: Error {}
}
