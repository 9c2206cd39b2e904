import Foundation
import GatewayConfiguration
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayStrategies
import GatewayTesting
import GatewayTokenStores
import Logging
import Synchronization
import Testing

@testable import GatewayApp
@testable import GatewayProxy
@testable import GatewayTokens

@Suite("Locks of credentials", .timeLimit(.minutes(5)))
final class CredentialLocksTests {
    private let folder =
        FileManager.default.temporaryDirectory.appendingPathComponent("locks-\(UUID().uuidString)").path

    init() throws { try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func stored(_ name: String) throws -> Bool { try CredentialLocks(in: folder).contains(name) }

    @Test func aLockOutlivesTheGatewayAndAnUnlockDoes() async throws {
        let locks = try CredentialLocks(in: folder)
        try await locks.lock("box")
        #expect(locks.contains("box"))
        #expect(try stored("box"))
        try await locks.unlock(["box", "other"])
        #expect(!locks.contains("box"))
        #expect(try !stored("box"))
    }

    @Test func aLockCountsAtOnceAlsoWhenItCannotBeStored() async throws {
        let locks = try CredentialLocks(in: folder)
        try await locks.lock("first")
        try FileManager.default.removeItem(atPath: folder)
        let failure = await #expect(throws: LockFailure.self) { try await locks.lock("box") }
        #expect(failure?.detail(of: "box").contains("box is locked, but only until the gateway stops.") == true)
        #expect(failure?.others == nil)
        #expect(locks.contains("box"))
        await #expect(throws: StateError.self) { try await locks.unlock(["first"]) }
        #expect(locks.contains("first"), "what cannot be stored stays locked")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        await locks.storeAgain()
        #expect(try stored("box"))
    }

    @Test func commandsBesideTheGatewaySendNothingThatIsLockedOrMayBe() async throws {
        let text = """
            version: 1
            state_directory: \(folder)
            credentials:
              one: {strategy: bearer, token: {env: SAME}}
              two: {strategy: bearer, token: {env: SAME}}
              other: {strategy: bearer, token: {env: OTHER}}
            routes: {a: {upstream: https://a.example.com, auth: one}}
            """
        let secrets = MemorySecrets(variables: ["SAME": "canary-secret-1", "OTHER": "canary-secret-2"])
        let outcome = ConfigLoader(
            files: MemoryFiles(["/work/gateway.yaml": text]),
            environment: { secrets.environment($0) }
        )
        .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
        let plan = try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
        func locked() -> [String] {
            let locked = LockedCredentials(plan)
            return plan.credentials.map(\.name).filter { locked.contains($0) }
        }
        #expect(locked() == [])
        try await CredentialLocks(in: folder).lock("one")
        #expect(locked() == ["one", "two"], "credentials with the same secret share a lock")
        #expect(LockedCredentials(plan).unknown == nil)
        try "not a list".write(toFile: CredentialLocks.path(in: folder), atomically: true, encoding: .utf8)
        #expect(locked() == ["one", "two", "other"])
        #expect(LockedCredentials(plan).unknown?.contains("locks.json") == true)
    }

    @Test func theNamesOfALargeConfigurationAreReadAgain() async throws {
        let names = (0..<20_000).map { "credential-number-\($0)" }
        let text = "[" + names.map { "\"\($0)\"" }.joined(separator: ", ") + "]\n"
        try text.write(toFile: CredentialLocks.path(in: folder), atomically: true, encoding: .utf8)
        #expect(try stored("credential-number-19999"))
    }

    @Test func manyAtOnceAreAllStored() async throws {
        let locks = try CredentialLocks(in: folder)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 { group.addTask { try await locks.lock("c\(number)") } }
            try await group.waitForAll()
        }
        let all = try (0..<50).allSatisfy { try stored("c\($0)") }
        #expect(all)
    }
}

/// Two gateways with a folder each, and one store.
@Suite("Locks that gateways share", .timeLimit(.minutes(5)))
final class SharedLocksTests {
    private let folders = (1...2).map { _ in
        FileManager.default.temporaryDirectory.appendingPathComponent("locks-\(UUID().uuidString)").path
    }
    private let store = StoreOfLocks()

    init() throws {
        for folder in folders {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        }
    }

    deinit { for folder in folders { try? FileManager.default.removeItem(atPath: folder) } }

    private func both() throws -> (CredentialLocks, CredentialLocks) {
        (try CredentialLocks(in: folders[0], shared: store), try CredentialLocks(in: folders[1], shared: store))
    }

    @Test func whatOneLocksTheOtherFollows() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        let followed = try await other.synchronize()
        #expect(followed.changed == ["box"] && followed.upTo == FleetMark(7))
        #expect(other.contains("box"))
        #expect(try await other.synchronize().changed.isEmpty, "it is said once")
        #expect(try await one.synchronize().changed.isEmpty, "the own lock is no news")
        try await other.unlock(["box"])
        #expect(try await one.synchronize().changed == ["box"])
        #expect(!one.contains("box"))
    }

    @Test func onlyWhatNoOperatorOfThisGatewayHasUnlockedIsTakenAndOnce() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        _ = try await other.synchronize()
        #expect(other.takeUnlockedByStore().isEmpty, "a lock is no unlock")
        try await other.unlock(["box"])
        _ = try await other.synchronize()
        #expect(other.takeUnlockedByStore().isEmpty, "its own operator did it")
        _ = try await one.synchronize()
        #expect(one.takeUnlockedByStore() == ["box"])
        #expect(one.takeUnlockedByStore().isEmpty)
    }

    /// A command without a gateway follows the store, writes the file, and records nothing.
    @Test func theFileHasANameUntilItsEndIsTaken() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        _ = try await other.synchronize()
        try await other.unlock(["box"])
        _ = try await one.synchronize()
        #expect(!one.contains("box"))
        try await one.lock("duke")
        let next = try CredentialLocks(in: folders[0], shared: store)
        _ = try await next.synchronize()
        #expect(next.takeUnlockedByStore() == ["box"])
        await next.storeAgain()
        #expect(try StoredLocks(readFrom: CredentialLocks.path(in: folders[0])) == StoredLocks(names: ["duke"]))
    }

    @Test func aLockThatOthersDoNotKnowOutlivesARestart() async throws {
        let (one, other) = try both()
        store.fails(true)
        await #expect(throws: LockFailure.self) { try await one.lock("box") }
        store.fails(false)
        let next = try CredentialLocks(in: folders[0], shared: store)
        _ = try await next.synchronize()
        #expect(next.contains("box") && next.takeUnlockedByStore().isEmpty)
        #expect(try await other.synchronize().changed == ["box"])
        await next.storeAgain()
        #expect(try StoredLocks(readFrom: CredentialLocks.path(in: folders[0])) == StoredLocks(names: ["box"]))
        // It is told once: after that, what the store says counts.
        try await other.unlock(["box"])
        let last = try CredentialLocks(in: folders[0], shared: store)
        _ = try await last.synchronize()
        #expect(!last.contains("box"))
    }

    @Test func withoutTheStoreALockHoldsHereAndIsToldLater() async throws {
        let (one, other) = try both()
        store.fails(true)
        let error = await #expect(throws: LockFailure.self) { try await one.lock("box") }
        let detail = try #require(error?.detail(of: "box"))
        #expect(detail.contains("other gateways cannot be told about the locks"))
        #expect(detail.contains("box is locked on this gateway, also after a restart."))
        #expect(detail.contains("The other gateways do not know it yet."))
        #expect(!detail.contains("until the gateway stops"))
        #expect(one.contains("box"))
        await #expect(throws: StateError.self) { _ = try await one.synchronize() }
        #expect(one.contains("box"))
        store.fails(false)
        #expect(try await one.synchronize().changed.isEmpty)
        #expect(try await other.synchronize().changed == ["box"])
    }

    @Test func whatCannotBeToldStaysLocked() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        _ = try await other.synchronize()
        store.fails(true)
        await #expect(throws: StateError.self) { try await other.unlock(["box"]) }
        #expect(other.contains("box"))
        store.fails(false)
        _ = try await other.synchronize()
        #expect(other.contains("box"))
        #expect(one.contains("box"))
    }

    /// A gateway asks the store, an operator locks here, and the answer to the question arrives late.
    @Test func aLockHoldsAgainstAnAnswerThatIsOlder() async throws {
        let (one, _) = try both()
        let asked = Promise<Void>()
        let answer = Promise<Void>()
        store.delaysNext {
            asked.keep(())
            await answer.value()
        }
        async let answered = one.synchronize()
        await asked.value()
        try await one.lock("box")
        answer.keep(())
        #expect(try await answered.changed.isEmpty)
        #expect(one.contains("box"))
        #expect(try await one.synchronize().changed.isEmpty)
        #expect(one.contains("box"))
    }

    /// A disk that does not answer must not delay what others have locked.
    @Test func whatOthersLockIsFollowedBeforeItIsWritten() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        #expect(try await other.synchronize().changed == ["box"])
        #expect(try !CredentialLocks(in: folders[1], shared: store).contains("box"))
        await other.storeAgain()
        #expect(try CredentialLocks(in: folders[1], shared: store).contains("box"))
    }

    /// Somebody has locked its row in an open transaction.
    @Test func aRecordThatIsHeldKeepsNoOtherLockFromBeingTold() async throws {
        let (one, other) = try both()
        store.holds(["box"])
        let error = await #expect(throws: LockFailure.self) { try await one.lock("box") }
        #expect(
            error?.detail(of: "box").contains("other gateways cannot be told about the locks: somebody holds it")
                == true
        )
        try await one.lock("second")
        #expect(try await other.synchronize().changed == ["second"])
        #expect(try await one.synchronize().changed.isEmpty)
        #expect(one.contains("box"))
        store.holds([])
        _ = try await one.synchronize()
        #expect(try await other.synchronize().changed == ["box"])
        store.holds(["box"])
        await #expect(throws: StateError.self) { try await other.unlock(["box"]) }
        #expect(other.contains("box"))
    }

    @Test func theAnswerToALockDoesNotWaitForAStoreThatHangs() async throws {
        let (one, other) = try both()
        let answer = Promise<Void>()
        store.delaysNext { await answer.value() }
        let begun = ContinuousClock.now
        let error = await #expect(throws: LockFailure.self) { try await one.lock("box") }
        #expect(ContinuousClock.now - begun < .seconds(4))
        #expect(error?.detail(of: "box").contains("did not answer within 2 s") == true)
        #expect(one.contains("box"))
        answer.keep(())
        #expect(try await other.synchronize().changed == ["box"])
    }

    /// Whatever a start did not wait for is news for who follows.
    @Test func aLateAnswerToAStartIsNotTakenOver() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        let answer = Promise<Void>()
        store.delaysNext { await answer.value() }
        await other.begin(until: .now.advanced(by: .milliseconds(100)))
        answer.keep(())
        #expect(try await other.synchronize().changed == ["box"])
        await one.begin(until: .now.advanced(by: .seconds(10)))
        #expect(one.contains("box"))
    }

    @Test func theCopyHoldsForAGatewayThatStartsWithoutTheStore() async throws {
        let (one, _) = try both()
        try await one.lock("box")
        store.fails(true)
        #expect(try CredentialLocks(in: folders[0], shared: store).contains("box"))
    }
}

/// What gateways share, in memory.
final class StoreOfLocks: SharedLocks {
    private struct State {
        var names: Set<String> = []
        var isAway = false
        var held: Set<String> = []
        /// Of one answer.
        var delay: (@Sendable () async -> Void)?
    }

    private let state = Mutex(State())

    func fails(_ isAway: Bool) { state.withLock { $0.isAway = isAway } }

    func holds(_ names: Set<String>) { state.withLock { $0.held = names } }

    func delaysNext(_ delay: @escaping @Sendable () async -> Void) { state.withLock { $0.delay = delay } }

    func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> SharedLockNames {
        let answer: SharedLockNames? = state.withLock { state in
            guard !state.isAway else { return nil }
            state.names = state.names.union(added.subtracting(state.held)).subtracting(removed.subtracting(state.held))
            var answer = SharedLockNames(state.names, upTo: FleetMark(7))
            answer.held = state.held.intersection(added.union(removed))
            answer.reason = answer.held.isEmpty ? nil : "somebody holds it"
            return answer
        }
        await state.withLock { $0.delay.take() }?()
        guard let answer else { throw .unavailable("gone") }
        return answer
    }
}

/// A static strategy, whose behavior a test chooses.
private struct KeyStrategy: AuthStrategy {
    static let kind = "key"
    let behavior: AuthBehavior
    let secret: String
    var injectedSecret: (key: String, secret: Secret)? { ("value", Secret(secret)) }

    init(_ secret: String, scheme: String, onChallenge: Bool = false) {
        let injection = Injection.authorization(scheme: scheme, Secret(secret))
        behavior = onChallenge ? .onChallenge(injection, realm: nil) : .fixed(injection)
        self.secret = secret
    }

    init(subjects: any SubjectGrants) {
        behavior = .tokens(subjects)
        secret = ""
    }

    init?(from fields: ConfigFields) { return nil }
}

/// Grants whose first use lets somebody else act while the keeper of a new subject is made.
private struct SlowSubjects: SubjectGrants {
    let field = "X-User"
    let limit = 10
    let identity = GrantIdentity.sample()
    let isRenewable = true
    let isMaking: DispatchSemaphore
    let goesOn: DispatchSemaphore

    func allows(_ subject: String) -> Bool { true }

    func grant(for subject: String) -> any TokenGrant {
        isMaking.signal()
        _ = goesOn.wait(timeout: .now() + 10)
        return SampleGrant(identity: .sample(subject: subject))
    }
}

/// Locking is a property of every credential: what the configuration holds is one, too.
@Suite("Locks of static credentials", .timeLimit(.minutes(1)))
final class StaticCredentialLockTests {
    private static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private static let now = MonotonicTime(nanoseconds: 0)

    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent("static-\(UUID().uuidString)")
        .path
    private let locks: CredentialLocks
    private let audit = RecordingAuditLog()

    init() throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        locks = try CredentialLocks(in: folder)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func plan(_ strategies: [(name: String, strategy: KeyStrategy)]) -> Plan {
        let span = SourceSpan(file: 0, line: 1, column: 1)
        return Plan(
            stateDirectory: folder,
            workers: .exactly(1),
            listeners: [],
            admin: AdminPlan(address: .tcp(host: "127.0.0.1", port: 0)),
            access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
            audit: AuditPlan(path: "", usage: .none, retention: .seconds(1), onFailure: .degrade),
            tokens: TokenPlan(store: .memory, path: "", key: .file(path: "")),
            limits: Limits(),
            credentials: strategies.map { name, strategy in
                CredentialPlan(
                    name: name,
                    strategyKind: "key",
                    strategy: strategy,
                    policy: RenewalPolicy(),
                    span: span
                )
            },
            routes: []
        )
    }

    private func sources(_ plan: Plan, keeping previous: CredentialSources? = nil) throws -> CredentialSources {
        let parts = CredentialSources.Parts(
            key: try InstallationKey(bytes: Array(0..<32)),
            store: RecordingTokenStore(),
            endpoint: ScriptedTokenEndpoint { _, _ in .token("one", expiresIn: 3600) },
            programs: NoPrograms(),
            audit: audit,
            onAuditFailure: .degrade,
            feed: AuditEventQueue(audit: audit, metrics: MetricRegistry(), logger: Self.quiet),
            locks: locks,
            start: { _ in },
            clock: ManualClock(),
            logger: Self.quiet
        )
        return CredentialSources(credentials: plan.credentials, parts: parts, keeping: previous)
    }

    private func operations(_ live: LivePlan, withdrawn: Watched<[String]>) -> TokenOperations {
        let state = live.state
        return TokenOperations(
            live: live,
            keepers: KeeperLookup(plan: state.plan, sources: state.sources),
            locks: locks,
            captures: CaptureStore(in: folder, logger: Self.quiet),
            audit: audit,
            onAuditFailure: .degrade,
            clock: ManualClock(),
            isOffline: false,
            withdraw: { sources in
                withdrawn.update { $0 += sources.map(\.name) }
                return []
            }
        )
    }

    private static func isLocked(_ source: (any CredentialSource)?) -> Bool {
        guard case .unavailable(let problem)? = source?.current(at: now) else { return false }
        return problem.kind == .locked
    }

    private static let three: [(name: String, strategy: KeyStrategy)] = [
        ("openai", KeyStrategy("k-1", scheme: "Bearer")), ("eu", KeyStrategy("k-1", scheme: "Key")),
        ("other", KeyStrategy("k-2", scheme: "Bearer")),
    ]

    @Test func aLockIsForAllThatHasTheSecretAndEndsItsUse() async throws {
        let plan = plan(Self.three)
        let live = LivePlan(plan: plan, sources: try sources(plan), at: UnixTime(seconds: 0))
        let withdrawn = Watched([String]())
        let report = try await operations(live, withdrawn: withdrawn).lock("openai").get()
        #expect(report.message.contains("openai is locked") && report.message.contains("eu"))
        #expect(report.token.state == .locked && Set(withdrawn.value) == ["openai", "eu"])
        let sources = live.sources
        #expect((0..<3).map { Self.isLocked(sources.source($0, in: plan)) } == [true, true, false])
        // Others that are made meanwhile, at a start for example.
        let fresh = try self.sources(plan)
        #expect((0..<3).map { Self.isLocked(fresh.source($0, in: plan)) } == [true, true, false])
        #expect(try CredentialLocks(in: folder).contains("eu"), "it holds without the other one")
        _ = try await operations(live, withdrawn: withdrawn).unlock("eu").get()
        #expect((0..<3).map { Self.isLocked(sources.source($0, in: plan)) } == [false, false, false])
        #expect(Set(withdrawn.value) == ["openai", "eu"])
    }

    @Test func everyRouteHasTheLockAlsoOneWhosePasswordIsSentOnAChallenge() async throws {
        let plan = plan([("reports", KeyStrategy("pw", scheme: "Basic", onChallenge: true))])
        let live = LivePlan(plan: plan, sources: try sources(plan), at: UnixTime(seconds: 0))
        let routes = (0..<2).map { _ in live.sources.source(0, in: plan) }
        #expect(routes[0] is ChallengeCredentialSource && routes[0] !== routes[1])
        _ = try await operations(live, withdrawn: Watched([])).lock("reports").get()
        #expect(routes.map(Self.isLocked) == [true, true])
    }

    @Test func aReloadKeepsWhatIsLockedAndLocksWhatComesWithTheSecret() async throws {
        let first = plan([("openai", KeyStrategy("k-1", scheme: "Bearer"))])
        let live = LivePlan(plan: first, sources: try sources(first), at: UnixTime(seconds: 0))
        _ = try await operations(live, withdrawn: Watched([])).lock("openai").get()
        let second = plan(Self.three)
        let next = try sources(second, keeping: live.sources)
        #expect(next.source(0, in: second) === live.sources.source(0, in: first))
        #expect((0..<3).map { Self.isLocked(next.source($0, in: second)) } == [true, true, false])
        #expect(next.follow(locks, as: second.credentials, newSince: live.sources).isEmpty)
        // Another secret under the name: whoever locked the name has yet to allow it.
        let third = plan([("openai", KeyStrategy("k-3", scheme: "Bearer"))])
        #expect(Self.isLocked(try sources(third, keeping: next).source(0, in: third)))
    }

    @Test func aReloadThatRenamesACredentialKeepsItsSecretLocked() async throws {
        let first = plan([("openai", KeyStrategy("k-1", scheme: "Bearer"))])
        let live = LivePlan(plan: first, sources: try sources(first), at: UnixTime(seconds: 0))
        _ = try await operations(live, withdrawn: Watched([])).lock("openai").get()
        let second = plan([("renamed", KeyStrategy("k-1", scheme: "Key")), Self.three[2]])
        let next = try sources(second, keeping: live.sources)
        #expect(next.holdLockedSecrets(in: locks, of: live.sources) == ["renamed"])
        #expect(next.follow(locks, as: second.credentials, newSince: live.sources).map(\.name) == ["renamed"])
        #expect((0..<2).map { Self.isLocked(next.source($0, in: second)) } == [true, false])
        await locks.storeAgain()
        #expect(try CredentialLocks(in: folder).contains("renamed"), "it holds after a restart")
        #expect(next.holdLockedSecrets(in: locks, of: next).isEmpty)
    }

    @Test func aLockThatComesDuringAReloadIsFollowed() async throws {
        let plan = plan(Self.three)
        let (old, next) = (try sources(plan), try sources(plan))
        locks.hold("other")
        #expect(!Self.isLocked(next.source(2, in: plan)))
        #expect(next.follow(locks, as: plan.credentials, newSince: old).map(\.name) == ["other"])
        #expect(Self.isLocked(next.source(2, in: plan)))
    }

    @Test func aLockOfAnotherGatewayIsFollowed() throws {
        let plan = plan(Self.three)
        let sources = try sources(plan)
        locks.hold("eu")
        let locked = sources.follow(locks, as: plan.credentials, changed: ["eu"])
        #expect(locked.map(\.name) == ["openai", "eu"])
        #expect((0..<3).map { Self.isLocked(sources.source($0, in: plan)) } == [true, true, false])
        #expect(sources.follow(locks, as: plan.credentials, changed: ["eu"]).isEmpty)
    }

    /// The one has the locks and asks for the subjects, the other has the subjects and asks whether its own is locked.
    @Test func aLockAndARequestForANewSubjectDoNotWaitForEachOther() throws {
        let grants = SlowSubjects(isMaking: DispatchSemaphore(value: 0), goesOn: DispatchSemaphore(value: 0))
        let plan = plan([("users", KeyStrategy(subjects: grants))])
        let members = try #require(try sources(plan).perSubjectKeepers[0])
        let (requested, locked) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            _ = members.source(for: "42", client: "laptop")
            requested.signal()
        }
        try #require(grants.isMaking.wait(timeout: .now() + 10) == .success)
        locks.hold("users")
        Thread.detachNewThread { [locks] in
            locks.decide(["users"]) {
                grants.goesOn.signal()
                return members.change(isLocked: $0)
            }
            locked.signal()
        }
        try #require(requested.wait(timeout: .now() + 10) == .success, "each waits for what the other has")
        try #require(locked.wait(timeout: .now() + 10) == .success)
        #expect(members.keepers.map(\.name) == ["users[42]"])
        #expect(members.keepers.allSatisfy { Self.isLocked($0) })
        guard case .failure(let problem) = members.source(for: "43", client: "laptop") else {
            Issue.record("a new subject is given a token of a locked credential")
            return
        }
        #expect(problem.kind == .locked)
    }

    /// What a request does when it is refused is its own affair, and may take any lock.
    @Test(arguments: ["users", "users[42]"])
    func requestsThatWaitAreRefusedAfterTheLock(_ name: String) throws {
        let grants = SlowSubjects(isMaking: DispatchSemaphore(value: 0), goesOn: DispatchSemaphore(value: 0))
        grants.goesOn.signal()
        let plan = plan([("users", KeyStrategy(subjects: grants))])
        let sources = try sources(plan)
        let members = try #require(sources.perSubjectKeepers[0])
        let source = try members.source(for: "42", client: "laptop").get()
        let refused = DispatchSemaphore(value: 0)
        let demand = CredentialRequest(route: "api", client: nil, requestID: "1")
        _ = source.wait(for: demand) { [locks] _ in
            if locks.contains(name) { refused.signal() }
        }
        locks.hold(name)
        Thread.detachNewThread { [locks] in
            _ = sources.follow(locks, as: plan.credentials, changed: [name])
        }
        try #require(refused.wait(timeout: .now() + 10) == .success, "it was refused while the locks were held")
        #expect(Self.isLocked(source))
    }

    @Test func aSubjectWhoseNameIsLockedGetsNoToken() throws {
        let grants = SlowSubjects(isMaking: DispatchSemaphore(value: 0), goesOn: DispatchSemaphore(value: 0))
        for _ in 1...2 { grants.goesOn.signal() }
        let plan = plan([("users", KeyStrategy(subjects: grants))])
        let members = try #require(try sources(plan).perSubjectKeepers[0])
        locks.hold("users[42]")
        #expect(Self.isLocked(try members.source(for: "42", client: "laptop").get()))
        #expect(!Self.isLocked(try members.source(for: "43", client: "laptop").get()))
    }

    @Test func aLockThatCannotBeRecordedHoldsAndSaysSo() async throws {
        let grants = SlowSubjects(isMaking: DispatchSemaphore(value: 0), goesOn: DispatchSemaphore(value: 0))
        grants.goesOn.signal()
        let plan = plan([("users", KeyStrategy(subjects: grants))])
        let live = LivePlan(plan: plan, sources: try sources(plan), at: UnixTime(seconds: 0))
        let members = try #require(live.sources.perSubjectKeepers[0])
        let source = try members.source(for: "42", client: "laptop").get()
        audit.fail { _ in true }
        let report = try await operations(live, withdrawn: Watched([])).lock("users[42]").get()
        #expect(
            report.message.hasPrefix(
                "users[42] is locked: it is neither injected nor renewed. That is not recorded yet: no space left"
            )
        )
        #expect(report.token.state == .locked && Self.isLocked(source))
    }

    @Test func whatHasNoTokenCannotBeRevoked() async throws {
        let plan = plan(Self.three)
        let live = LivePlan(plan: plan, sources: try sources(plan), at: UnixTime(seconds: 0))
        guard case .failure(let problem) = await operations(live, withdrawn: Watched([])).perform(.revoke, on: "openai")
        else {
            Issue.record("a static credential was revoked")
            return
        }
        #expect(problem.detail.contains("is static") && problem.detail.contains("can be locked"))
    }
}
