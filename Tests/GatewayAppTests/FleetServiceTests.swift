import GatewayHTTP
import GatewayTesting
import GatewayTokenStores
import GatewayTokens
import Logging
import ServiceLifecycle
import Synchronization
import Testing

@testable import GatewayApp

/// A store whose gateways know each other, in memory.
private final class FleetInMemory: TokenStore, SharedFleet {
    struct State: Sendable {
        var members: [String: FleetHeartbeat] = [:]
        var beats: [FleetHeartbeat] = []
        var transaction: Int64 = 100
        var failure: TokenStoreError?
        var called: [AsyncStream<Void>.Continuation] = []
        /// How often the members were asked for.
        var looks = 0
    }

    let state = Watched(State())
    let clock: ManualClock
    private let plain = MemoryTokenStore(isShared: true)

    init(_ clock: ManualClock) { self.clock = clock }

    var isShared: Bool { true }
    var sharedFleet: (any SharedFleet)? { self }

    func beat(_ heartbeat: FleetHeartbeat) async throws(TokenStoreError) -> UnixTime {
        if let failure = state.value.failure { throw failure }
        state.update { state in
            state.members[heartbeat.id] = heartbeat
            state.beats.append(heartbeat)
        }
        return clock.now().wall + .seconds(-30)
    }

    func leave(_ id: String) async throws(TokenStoreError) { state.update { $0.members[id] = nil } }

    func members() async throws(TokenStoreError) -> [FleetMember] {
        state.update { $0.looks += 1 }
        if let failure = state.value.failure { throw failure }
        return state.value.members.values.map { FleetMember($0, seen: .zero) }
    }

    func call() async throws(TokenStoreError) -> FleetMark {
        if let failure = state.value.failure { throw failure }
        let (mark, called) = state.update { state in
            state.transaction += 1
            return (FleetMark(state.transaction), state.called)
        }
        for continuation in called { continuation.yield() }
        return mark
    }

    func calls() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.update { $0.called.append(continuation) }
        return stream
    }

    var followed: FleetMark { FleetMark(state.value.transaction) }

    // MARK: Records

    func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry { try await plain.load(key) }

    func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer { try await plain.save(token, for: key, expecting: revision) }

    func replace(_ token: StoredToken?, for key: CredentialKey) async throws(TokenStoreError) -> TokenRevision {
        try await plain.replace(token, for: key)
    }

    func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await plain.lease(key, expecting: revision, for: time, writing: token)
    }

    func prolong(_ lease: TokenLease, for time: Duration) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await plain.prolong(lease, for: time)
    }

    func save(_ token: StoredToken, under lease: TokenLease) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await plain.save(token, under: lease)
    }

    func commit(_ token: StoredToken?, under lease: TokenLease) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await plain.commit(token, under: lease)
    }

    func release(_ lease: TokenLease) async throws(TokenStoreError) { try await plain.release(lease) }

    func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        try await plain.changes(since: mark)
    }
}

@Suite("A gateway in its fleet", .timeLimit(.minutes(1)))
struct FleetServiceTests {
    private let clock = ManualClock()
    private let store: FleetInMemory
    private let logger: Logger
    private let reloads = AsyncStream.makeStream(of: Void.self)
    private let followsLocks = Watched(true)
    private let followsTokens = Watched(true)
    /// Why others do not know the gateway, after each heartbeat.
    private let unlisted = Watched<[String?]>([])

    init() {
        store = FleetInMemory(clock)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        self.logger = logger
    }

    private func service() -> FleetService {
        FleetService(
            FleetService.Parts(
                store: store,
                followLocks: { [store, followsLocks] in followsLocks.value ? store.followed : nil },
                followTokens: { [store, followsTokens] in followsTokens.value ? store.followed : nil },
                heartbeat: {
                    FleetHeartbeat(
                        id: "one",
                        host: "host",
                        version: "1",
                        startedAt: "2026-11-25T08:00:00.000Z",
                        configurationDigest: "aaaaaa"
                    )
                },
                reloads: reloads.stream,
                unlisted: { [unlisted] reason in unlisted.update { $0.append(reason) } },
                clock: clock,
                logger: logger,
                jitter: { 0 },
                pause: .zero
            )
        )
    }

    /// Stops the service gracefully when `body` is done.
    private func running(_ body: @escaping @Sendable () async throws -> Void) async throws {
        let group = ServiceGroup(
            configuration: .init(services: [.init(service: service())], logger: logger)
        )
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            try await body()
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    private func beats(_ count: Int) async throws -> FleetHeartbeat {
        let state = try await store.state.until { $0.beats.count >= count }
        return state.beats[count - 1]
    }

    @Test func itTellsOfItselfAfterEachRoundAndLeavesWhenItStops() async throws {
        try await running {
            #expect(try await beats(1).acknowledged == store.followed)
            _ = try await unlisted.until { !$0.isEmpty }
            store.state.update { $0.transaction = 200 }
            try await clock.untilAsleep(moreThan: .milliseconds(900))
            clock.advance(by: .seconds(1))
            let second = try await beats(2)
            #expect(second.acknowledged == FleetMark(200))
            #expect(second.clockOffset == .seconds(-30), "as the first one has measured it")
            #expect(store.state.value.members.count == 1)
        }
        #expect(store.state.value.members.isEmpty)
    }

    @Test func aCallIsFollowedAtOnce() async throws {
        try await running {
            _ = try await beats(1)
            _ = try await store.state.until { !$0.called.isEmpty }
            let mark = try await store.call()
            _ = try await store.state.until { $0.beats.last?.acknowledged == mark }
        }
    }

    @Test func aReloadIsToldAtOnce() async throws {
        try await running {
            _ = try await beats(1)
            reloads.continuation.yield()
            _ = try await beats(2)
        }
    }

    @Test(arguments: [(false, true), (true, false)])
    func whatIsNotFollowedIsNotAcknowledged(_ locks: Bool, _ tokens: Bool) async throws {
        try await running {
            let first = try await beats(1).acknowledged
            _ = try await store.state.until { !$0.called.isEmpty }
            followsLocks.update { $0 = locks }
            followsTokens.update { $0 = tokens }
            let mark = try await store.call()
            #expect(try await beats(2).acknowledged == first)
            #expect(first < mark)
        }
    }

    @Test func aGatewayThatOthersDoNotKnowSaysWhyUntilTheyDo() async throws {
        store.state.update { $0.failure = .unavailable("permission denied\n") }
        try await running {
            let reasons = try await unlisted.until { !$0.isEmpty }
            #expect(reasons.first??.hasPrefix("permission denied") == true)
            store.state.update { $0.failure = nil }
            reloads.continuation.yield()
            _ = try await unlisted.until { $0.last == .some(nil) }
        }
    }

    // MARK: Asking

    @Test func aFailureThatTookTheTokenAwayNamesWhoHasNotFollowed() async throws {
        _ = try await store.beat(heartbeat("late", 0))
        let inquiry = try #require(FleetInquiry(store, clock: SystemClock()))
        var problem = GatewayProblem(.tokenEndpointUnreachable, "Not revoked.")
        func told(_ problem: GatewayProblem) async -> Result<OperationReport, GatewayProblem> {
            await inquiry.addingWarning(.failure(problem), from: "own")
        }
        #expect(await told(problem) == .failure(problem), "nothing was taken away")
        problem.hasTakenAway = true
        let result = await told(problem)
        guard case .failure(let answer) = result else {
            Issue.record("it stays a failure")
            return
        }
        #expect(answer.detail.hasPrefix("Not revoked. 1 gateway has not acknowledged it: late (late, "))
    }

    @Test func anAnswerNamesWhoHasNotFollowed() async throws {
        _ = try await store.beat(heartbeat("own", 0))
        _ = try await store.beat(heartbeat("prompt", 1 << 40))
        _ = try await store.beat(heartbeat("late", 0))
        let inquiry = try #require(FleetInquiry(store, clock: SystemClock()))
        let following = await inquiry.following(from: "own")
        #expect(following.unacknowledged.map(\.id) == ["late"])
        #expect(following.unknown == nil)
        let report = try await inquiry.report().get()
        #expect(report.gateways.map { $0.lagSeconds == nil } == [true, true, false])
    }

    @Test func anAnswerForWhichTheTimeIsOverNamesWhoHasNotFollowedByNow() async throws {
        _ = try await store.beat(heartbeat("own", 0))
        _ = try await store.beat(heartbeat("late", 0))
        let inquiry = try #require(FleetInquiry(store, clock: SystemClock()))
        let begun = ContinuousClock.now
        let following = await inquiry.following(from: "own", after: FleetQuestion.limit)
        #expect(following.unacknowledged.map(\.id) == ["late"])
        #expect(ContinuousClock.now - begun < .seconds(1))
    }

    @Test func anAnswerSaysThatTheStoreCannotBeAsked() async throws {
        store.state.update { $0.failure = .unavailable("it is gone") }
        let inquiry = try #require(FleetInquiry(store, clock: SystemClock()))
        #expect(await inquiry.following(from: "own").unknown == "it is gone")
        guard case .failure(.unavailable("it is gone")) = await inquiry.report() else {
            Issue.record("the report says why there is none")
            return
        }
    }

    /// Each question costs the database several statements, and a viewer may ask as often as it likes.
    @Test func thoseWhoAskSoonGetTheSameReport() async throws {
        _ = try await store.beat(heartbeat("one", 1 << 40))
        let inquiry = try #require(FleetInquiry(store, clock: clock))
        let reports = FleetReports()
        await withTaskGroup(of: Int?.self) { group in
            for _ in 0..<50 { group.addTask { try? await reports.report(of: inquiry).get().gateways.count } }
            for await count in group { #expect(count == 1) }
        }
        #expect(store.state.value.looks == 1)
        _ = try await store.beat(heartbeat("two", 1 << 40))
        clock.advance(by: .milliseconds(999))
        #expect(try await reports.report(of: inquiry).get().gateways.count == 1)
        clock.advance(by: .milliseconds(1))
        #expect(try await reports.report(of: inquiry).get().gateways.map(\.id) == ["one", "two"])
        #expect(store.state.value.looks == 2)
        store.state.update { $0.failure = .unavailable("it is gone") }
        clock.advance(by: .seconds(1))
        for _ in 0..<2 {
            await #expect(throws: TokenStoreError.unavailable("it is gone")) {
                try await reports.report(of: inquiry).get()
            }
        }
        store.state.update { $0.failure = nil }
        clock.advance(by: .seconds(1))
        #expect(try await reports.report(of: inquiry).get().gateways.count == 2, "a failure is not kept for longer")
    }

    @Test func aStoreThatIsNotSharedIsNotAsked() {
        #expect(FleetInquiry(MemoryTokenStore(), clock: SystemClock()) == nil)
    }

    private func heartbeat(_ id: String, _ acknowledged: Int64) -> FleetHeartbeat {
        FleetHeartbeat(
            id: id,
            host: id,
            version: "1",
            startedAt: "2026-11-25T08:00:00.000Z",
            configurationDigest: "aaaaaa",
            acknowledged: FleetMark(acknowledged)
        )
    }
}
