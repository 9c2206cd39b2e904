import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging

@testable import GatewayTokens

/// Several gateways with one store and one authority.
struct FleetBench: Sendable {
    static let key = KeeperBench.key

    let clock = ManualClock()
    let authority: StrictAuthority
    let store: RecordingTokenStore
    let grant: SampleGrant
    private let fate: AuthorityLine.Fate

    /// - Parameters:
    ///   - stored: What the store holds at the beginning; its refresh token is the one that the authority accepts.
    ///   - fate: Of each gateway's first call.
    init(rotatesRefreshToken: Bool = true, stored: TokenSet? = nil, fate: AuthorityLine.Fate = .lives) {
        self.fate = fate
        store = RecordingTokenStore(isShared: true, now: { [clock] in clock.now().wall })
        store[Self.key] = stored.map { StoredToken(generation: 1, token: $0) }
        authority = StrictAuthority(accepting: stored?.refreshToken)
        grant = SampleGrant(rotatesRefreshToken: rotatesRefreshToken)
    }

    /// A token that has ended, with a refresh token.
    static let ended = TokenSet(
        access: Secret("access-0"),
        refreshToken: Secret("refresh-0"),
        obtainedAt: ManualClock().now().wall + .seconds(-4000),
        expiresAt: ManualClock().now().wall + .seconds(-400)
    )

    func gateway(_ name: String) -> FleetGateway {
        let gateway = FleetGateway(name, in: self)
        gateway.line.decree(fate)
        return gateway
    }
}

/// One gateway of a ``FleetBench``.
final class FleetGateway: Sendable {
    let keeper: TokenKeeper
    let audit = RecordingAuditLog()
    let line: AuthorityLine
    let storeLine = StoreLine()
    /// Keepers whose use the watcher has ended.
    let ended = Watched(0)
    /// Why records cannot be read; changes are told nevertheless.
    let loadFailure = Watched<TokenStoreError?>(nil)
    /// Whether the end of their use is confirmed.
    let confirms = Watched(true)
    let watcher: TokenStoreWatcher
    private let clock: ManualClock

    init(_ name: String, in fleet: FleetBench) {
        var logger = Logger(label: name)
        logger.logLevel = .critical
        clock = fleet.clock
        line = AuthorityLine(to: fleet.authority)
        let store = MortalStore(store: fleet.store, line: line, loadFailure: loadFailure, storeLine: storeLine)
        let keeper = TokenKeeper(
            KeeperContext(
                name: "box",
                strategyKind: "sample",
                grant: fleet.grant,
                policy: RenewalPolicy(),
                key: FleetBench.key,
                store: store,
                endpoint: line,
                audit: audit,
                onAuditFailure: .block,
                clock: fleet.clock,
                logger: logger
            ),
            jitter: { 0 }
        )
        self.keeper = keeper
        watcher = TokenStoreWatcher(
            of: store,
            keepers: { [keeper] },
            ended: { [ended, confirms] keepers in
                ended.update { $0 += keepers.count }
                return confirms.value
            },
            logger: logger
        )
    }

    func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.keeper.run() }
            group.addTask { try await self.watcher.run() }
            group.addTask {
                repeat { _ = await self.watcher.follow() } while (try? await self.clock.sleep(for: .seconds(1))) != nil
            }
            try await group.waitForAll()
        }
    }

    /// As the data plane does it: takes what is there, or waits.
    func credential() async -> Result<Credential, GatewayProblem> {
        switch keeper.current(at: clock.now().monotonic) {
        case .ready(let credential): return .success(credential)
        case .unavailable(let problem): return .failure(problem)
        case .wait: break
        }
        return await withCheckedContinuation { continuation in
            _ = keeper.wait(for: .sample) { continuation.resume(returning: $0) }
        }
    }

    var access: String? {
        guard case .ready(let credential) = keeper.current(at: clock.now().monotonic) else { return nil }
        return credential.access
    }

    /// What the watcher does when it has heard of a change.
    func hear(_ fleet: FleetBench) async throws {
        keeper.notice(try await fleet.store.load(FleetBench.key))
    }

    func untilAccess(_ expected: String?) async throws {
        for _ in 0..<20_000 {
            if access == expected { return }
            try await Task.sleep(for: .milliseconds(1))
        }
        throw ConformanceFailure("the gateway has \(access ?? "no token"), and not \(expected ?? "none")")
    }
}

extension Credential {
    var access: String? { injection.fields.first?.value.withValue { $0.replacing("Bearer ", with: "") } }
}

extension Result where Success == Credential, Failure == GatewayProblem {
    var access: String? { try? get().access }
}

/// The way of one gateway to the authority. The gateway can die on it.
final class AuthorityLine: TokenEndpoint {
    enum Fate: Sendable {
        case lives
        case diesBeforeTheAuthorityIsAsked
        case diesBeforeTheAnswerIsStored
        /// Until ``AuthorityLine/release()``.
        case waits
    }

    private struct State: Sendable {
        var fate = Fate.lives
        var isDead = false
        var isWaiting = false
    }

    private let authority: StrictAuthority
    private let state = Watched(State())

    init(to authority: StrictAuthority) { self.authority = authority }

    var isDead: Bool { state.value.isDead }
    /// A call is under way that does not end.
    var isStuck: Bool { state.value.isDead || state.value.isWaiting }
    /// The next call will be the last one.
    var isDoomed: Bool {
        switch state.value.fate {
        case .diesBeforeTheAuthorityIsAsked, .diesBeforeTheAnswerIsStored: true
        case .lives, .waits: false
        }
    }

    /// What becomes of the next call.
    func decree(_ fate: Fate) { state.update { $0.fate = fate } }
    func release() { state.update { $0.fate = .lives } }

    func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        switch state.value.fate {
        case .lives: return .success(authority.answer(request))
        case .waits:
            state.update { $0.isWaiting = true }
            _ = try? await state.until { if case .lives = $0.fate { true } else { false } }
            state.update { $0.isWaiting = false }
            return .success(authority.answer(request))
        case .diesBeforeTheAnswerIsStored: _ = authority.answer(request, losingAnswer: true)
        case .diesBeforeTheAuthorityIsAsked: break
        }
        state.update { $0.isDead = true }
        try? await Task.sleep(for: .seconds(300))
        return .failure(TokenTransportFailure(.connectionLost, mayHaveBeenProcessed: true))
    }
}

/// The way of one gateway to the store, which can be cut, and on which others can be faster.
final class StoreLine: Sendable {
    /// What the gateway is about to ask of the store.
    enum Step: Hashable, Sendable {
        case lease
        /// A write with which the gateway keeps its lease.
        case journal
    }

    private struct State: Sendable {
        var isCut = false
        var interposed: [Step: @Sendable () async throws -> Void] = [:]
    }

    private let state = Watched(State())

    var isCut: Bool { state.value.isCut }

    func cut() { state.update { $0.isCut = true } }
    func mend() { state.update { $0.isCut = false } }

    /// Lets others act after the gateway has read its record, and just before its next `step`.
    func interpose(before step: Step, _ act: @escaping @Sendable () async throws -> Void) {
        state.update { $0.interposed[step] = act }
    }

    fileprivate func pass(_ step: Step) async {
        let act = state.update { $0.interposed.removeValue(forKey: step) }
        try? await act?()
    }
}

/// The store as a gateway sees it that may be dead: nothing that it does arrives then.
private struct MortalStore: TokenStore {
    let store: RecordingTokenStore
    let line: AuthorityLine
    let loadFailure: Watched<TokenStoreError?>
    let storeLine: StoreLine

    var isShared: Bool { store.isShared }

    private func requireLife() throws(TokenStoreError) {
        if line.isDead { throw .unavailable("this gateway is dead") }
        if storeLine.isCut { throw .unavailable("this gateway is cut off") }
    }

    func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry {
        try requireLife()
        if let failure = loadFailure.value { throw failure }
        return try await store.load(key)
    }

    func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try requireLife()
        return try await store.save(token, for: key, expecting: revision)
    }

    func replace(_ token: StoredToken?, for key: CredentialKey) async throws(TokenStoreError) -> TokenRevision {
        try requireLife()
        return try await store.replace(token, for: key)
    }

    func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try requireLife()
        await storeLine.pass(.lease)
        return try await store.lease(key, expecting: revision, for: time, writing: token)
    }

    func prolong(_ lease: TokenLease, for time: Duration) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try requireLife()
        return try await store.prolong(lease, for: time)
    }

    func save(_ token: StoredToken, under lease: TokenLease) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try requireLife()
        await storeLine.pass(.journal)
        return try await store.save(token, under: lease)
    }

    func commit(_ token: StoredToken?, under lease: TokenLease) async throws(TokenStoreError) -> TokenSaveAnswer {
        try requireLife()
        return try await store.commit(token, under: lease)
    }

    func release(_ lease: TokenLease) async throws(TokenStoreError) {
        try requireLife()
        try await store.release(lease)
    }

    func changes() -> AsyncStream<TokenChange>? { store.changes() }

    func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        try requireLife()
        return try await store.changes(since: mark)
    }
}
