package import GatewayEvents
package import GatewayHTTP
import Synchronization

/// A credential that the configuration holds as it is sent, or signs with: an API key, a personal token, a password, a signing key.
///
/// One for each credential, shared by all routes and event loops: an operator locks it for all of them.
package final class FixedCredentialSource: CredentialSource {
    package let strategy: String
    package let isRenewable = false
    package var name: String { credential.name }
    package let grantKey: CredentialKey?
    package var fixed: FixedCredentialSource? { self }

    /// What it injects, or signs with, unless it is locked.
    package let credential: Credential
    private let lockState = Mutex(LockState())
    private let ledger = Mutex(AcceptanceLedger())
    /// Whether ``ledger`` has a run of rejections, and whether it still collects templates: most acceptances then take no lock.
    private let isDoubted = Atomic(false)
    private let wantsTemplates = Atomic(true)
    private let seed = UInt64.random(in: 0...UInt64.max)
    private let firstUses = Mutex(FirstUses())
    private let noted: @Sendable (CredentialUseEvent, CredentialRequest) -> Void
    private let keysRejected: @Sendable () -> Void

    private struct LockState {
        var isLocked = false
        var timesLocked = 0
    }

    /// - Parameters:
    ///   - generation: Above that of what is sent before an upstream has asked, where there is such a thing.
    ///   - grantKey: The key of what is injected, or signed with.
    ///   - noted: Told of first uses and repetitions, for the audit log. Must not block.
    ///   - keysRejected: Called when an upstream says that the keys of the signature are not valid. Must not block.
    package init(
        name: String,
        strategy: String,
        injection: Injection = Injection(),
        signer: Signer? = nil,
        generation: Int = 1,
        grantKey: CredentialKey? = nil,
        noted: @escaping @Sendable (CredentialUseEvent, CredentialRequest) -> Void = { _, _ in },
        keysRejected: @escaping @Sendable () -> Void = {}
    ) {
        self.strategy = strategy
        self.grantKey = grantKey
        self.credential = Credential(name: name, generation: generation, injection: injection, signer: signer)
        self.noted = noted
        self.keysRejected = keysRejected
    }

    package var injection: Injection { credential.injection }
    package var generation: Int { credential.generation }

    // MARK: Locks

    package var isLocked: Bool { lockState.withLock(\.isLocked) }

    /// From now on no request is given it.
    ///
    /// - Returns: Whether it was not locked before.
    @discardableResult
    package func lock() -> Bool {
        lockState.withLock { state in
            guard !state.isLocked else { return false }
            state.isLocked = true
            state.timesLocked += 1
            // Event loops ask this of what they were given last.
            credential.withdraw()
            return true
        }
    }

    package func unlock() {
        lockState.withLock { state in
            state.isLocked = false
            credential.offer()
        }
    }

    /// Why there is nothing to inject; nil where there is.
    var lockedProblem: GatewayProblem? { isLocked ? .locked(name) : nil }

    package var timesWithdrawn: Int { lockState.withLock(\.timesLocked) }

    // MARK: What upstreams say

    /// Since the start, or since the secret was replaced.
    package var acceptance: AcceptanceLedger { ledger.withLock { $0 } }

    /// Whether the next acceptance must be told, because it ends a run of rejections.
    package var awaitsAcceptance: Bool { isDoubted.load(ordering: .relaxed) }
    /// Whether ``accepted(by:_:at:)`` is to be told of new paths.
    package var awaitsTemplates: Bool { wantsTemplates.load(ordering: .relaxed) }

    /// - Parameters:
    ///   - route: Its number.
    ///   - bytes: The head of the request.
    package func template(
        _ route: Int,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> RejectionLedger.Key {
        RejectionLedger.Key(route, head, bytes, seed: seed)
    }

    /// An upstream has answered a request with it as one that it lets in.
    package func accepted(by client: String?, _ template: RejectionLedger.Key?, at now: MonotonicTime) {
        tell { $0.accept(client, template, at: now) }
    }

    /// An upstream has refused it.
    ///
    /// - Parameter status: 401 or 403; another one only if the upstream says that the credential is the reason.
    package func rejected(
        by client: String?,
        _ template: RejectionLedger.Key,
        status: Int,
        at now: MonotonicTime
    ) {
        tell { $0.reject(client, template, status: status, at: now) }
    }

    private func tell(_ change: @Sendable (inout AcceptanceLedger) -> Void) {
        ledger.withLock { ledger in
            change(&ledger)
            isDoubted.store(ledger.hasRun, ordering: .relaxed)
            wantsTemplates.store(ledger.wantsTemplates, ordering: .relaxed)
        }
    }

    // MARK: Requests

    package func current(at now: MonotonicTime) -> CredentialAnswer {
        lockedProblem.map { .unavailable($0) } ?? .ready(credential)
    }

    package func wait(
        for demand: CredentialRequest,
        _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
    ) -> CredentialTicket {
        done(lockedProblem.map { .failure($0) } ?? .success(credential))
        return CredentialTicket(id: 0)
    }

    package func cancel(_ ticket: CredentialTicket) {}

    package func rejected(generation: Int, by demand: CredentialRequest) {
        // Other upstreams answer 401 for many reasons.
        if credential.signer?.judge != nil { keysRejected() }
    }

    package func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {
        switch event {
        case .injected, .handedOut:
            if firstUses.withLock({ $0.isFirst(generation: generation, route: demand.use) }) { noted(event, demand) }
        case .replayed, .withheld: noted(event, demand)
        }
    }
}
