import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Synchronization

@testable import GatewayTokens

/// A keeper between doubles.
struct KeeperBench {
    static let key = CredentialKey(digest: "00112233445566778899aabbccddeeff")

    let clock = ManualClock()
    let audit = RecordingAuditLog()
    let store: RecordingTokenStore
    let endpoint: ScriptedTokenEndpoint
    let keeper: TokenKeeper

    init(
        _ endpoint: ScriptedTokenEndpoint = ScriptedTokenEndpoint(),
        grant: any TokenGrant = SampleGrant(),
        policy: RenewalPolicy = RenewalPolicy(),
        store: RecordingTokenStore = RecordingTokenStore(),
        onAuditFailure: AuditPlan.OnFailure = .block,
        programs: any ProgramRunner = NoPrograms(),
        parentProblem: @escaping @Sendable () -> GatewayProblem? = { nil }
    ) {
        self.store = store
        self.endpoint = endpoint
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        keeper = TokenKeeper(
            KeeperContext(
                name: "box-service",
                strategyKind: "sample",
                grant: grant,
                policy: policy,
                key: Self.key,
                store: store,
                endpoint: endpoint,
                programs: programs,
                audit: audit,
                onAuditFailure: onAuditFailure,
                clock: clock,
                logger: logger,
                parentProblem: parentProblem
            ),
            jitter: { 0 }
        )
    }

    /// Runs the keeper for as long as `body` does.
    func running(_ body: @escaping @Sendable (KeeperBench) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await keeper.run() }
            defer { group.cancelAll() }
            try await body(self)
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    var answer: CredentialAnswer { keeper.current(at: clock.now().monotonic) }
    var status: TokenStatus { keeper.status(at: clock.now()) }

    /// A failure is recorded before the keeper knows what follows from it.
    func untilFailing() async throws {
        while status.failing == nil { try await Task.sleep(for: .milliseconds(1)) }
    }

    /// The generation at hand; nil when there is none.
    var generation: Int? {
        guard case .ready(let credential) = answer else { return nil }
        return credential.generation
    }

    var problem: GatewayProblem? {
        guard case .unavailable(let problem) = answer else { return nil }
        return problem
    }

    /// As the data plane does it: takes what is there, or waits.
    func credential(_ demand: CredentialRequest = .sample) async -> Result<Credential, GatewayProblem> {
        switch answer {
        case .ready(let credential): return .success(credential)
        case .unavailable(let problem): return .failure(problem)
        case .wait: break
        }
        return await withCheckedContinuation { continuation in
            _ = keeper.wait(for: demand) { continuation.resume(returning: $0) }
        }
    }

    func perform(_ operation: TokenOperation) async throws -> OperationReport {
        try await keeper.perform(operation).get()
    }

    func reveal() async throws -> RevealedToken { try await keeper.reveal().get() }

    /// Waits until another generation than `old` is handed out.
    func untilGeneration(after old: Int) async throws -> Credential {
        try await audit.untilRecorded(.renewed, times: old)
        // The event is committed just before the token is published.
        for _ in 0..<100_000 {
            if case .ready(let credential) = answer, credential.generation > old { return credential }
            await Task.yield()
        }
        throw ConformanceFailure("generation \(old) was never replaced")
    }
}

/// Locks as `TokenOperations` in GatewayApp carries them out.
extension TokenKeeper {
    /// - Returns: Why the lock is not recorded yet.
    @discardableResult
    func lockForOperator() async -> AuditError? {
        lock()
        return await recordLock()
    }

    /// - Returns: Why it stays locked.
    @discardableResult
    func unlockForOperator() async -> GatewayProblem? {
        if let problem = await recordUnlock() { return problem }
        let wake = change(isLocked: false)
        wake()
        return nil
    }
}

extension CredentialRequest {
    static let sample = CredentialRequest(route: "box", client: "laptop", requestID: "r1")
}

extension Result where Success == Credential, Failure == GatewayProblem {
    var generation: Int? { try? get().generation }
}

extension Result where Failure == GatewayProblem {
    var problem: GatewayProblem? { if case .failure(let problem) = self { problem } else { nil } }
}
