import GatewayEvents
import GatewayHTTP
import Logging

/// Carries out calls: reads and writes the store, asks the authorization server, commits events.
///
/// Who owns it: one turn of a ``TokenKeeper`` at a time. The turn takes it from the keeper's state, where it waits between turns, changes it
/// without a lock, and puts it back (``TokenKeeper/work()``). If no gateway runs the keeper, and for an exchange of its token, it is made
/// for one operation and thrown away.
///
/// What it owns: the record that the next call works on, what the store was last seen to hold, and what is left over for the next turn (a
/// write, an event, somebody else's entry). Only its own methods change that. When the next call is due, which token is in use and who waits
/// for it is the business of the keeper's ``TokenLifecycle``. What other threads must see at once is in ``PublishedToken``.
///
/// A call keeps this order: lease (if gateways share the store) -> event `acquiring` or `renewing` -> journal (if the grant
/// rotates) -> authorization server -> store -> event `acquired` or `renewed` -> the token is used.
///
/// If the new token cannot be stored, it is used anyway and saved later. With a grant that rotates, it is the only valid token;
/// with any other grant, storing it only saves a call after a restart. The journal then remains in the store, so that a crash
/// before the second attempt is noticed.
struct TokenRenewer {
    enum End {
        case obtained(FreshToken)
        case nothing
        case failed(TokenFailure)
        /// Another gateway is renewing, for as long as this.
        case held(Duration)
        /// The token was withdrawn at another gateway in the meantime.
        case withdrawn
    }

    /// A token that is stored but whose event the audit log did not take. It is not requested again: only the event is retried.
    ///
    /// A class, because few renewers have one, and a reference is small.
    private final class Uncommitted: Sendable {
        let fresh: FreshToken
        let event: TokenEvent

        init(fresh: FreshToken, event: TokenEvent) {
            self.fresh = fresh
            self.event = event
        }
    }

    private static let saveInterval: Duration = .seconds(5)

    /// How far the renewer has got with the store.
    private enum Phase {
        /// The store was never read. Before the first read, a difference is not a change.
        case unread
        /// The next call reads the store.
        case closed
        /// The record was forgotten here, but the store could not remove it. It must not be read again.
        case forgotten
        /// ``TokenRenewer/record`` is up to date.
        case open
    }

    private let context: KeeperContext
    /// What the next call works on.
    private var known: RenewalRecord
    /// The contents of the store when it was last asked. Each change publishes the revision, which others compare, on their own
    /// threads, with what they have read.
    private var stored = StoredRecord() {
        didSet { context.published.revision = stored.revision }
    }
    /// An entry that somebody else wrote before this gateway could save its own. It is applied in the next turn.
    private var overtakenBy: TokenEntry?
    private var phase: Phase
    private var uncommitted: Uncommitted?
    /// The write of ``record`` that the store has not taken yet.
    private var pendingWrite = PendingWrite.none
    /// Why the operator's last withdrawal is not in the audit log yet.
    private var unrecorded: AuditError?

    /// - Parameter isStored: false for a token of which there is no record to read.
    init(context: KeeperContext, isStored: Bool = true) {
        self.context = context
        phase = isStored ? .unread : .open
        known = RenewalRecord(
            rotatesRefreshToken: context.grant.rotatesRefreshToken,
            canAcquireAnew: context.grant.canAcquireAnew
        )
    }

    var record: StoredToken? { known.token }
    /// Whether ``record`` is up to date.
    var isOpen: Bool { phase == .open }
    /// Whether a call or an operator has begun to use the store, so that a difference from it is a change.
    var followsStore: Bool { phase != .unread }
    /// When to repeat the write that the store has not taken; nil if there is none.
    var writeDue: MonotonicTime? { pendingWrite.due }
    private var isUncertain: Bool { known.isUncertain }
    /// See ``RenewalRecord/isRotationUncertain``.
    var isRotationUncertain: Bool { known.isRotationUncertain }

    /// The entry that replaced a write and has yet to be applied.
    mutating func takeOvertaking() -> TokenEntry? { overtakenBy.take() }

    mutating func takeUnrecorded() -> AuditError? { unrecorded.take() }

    /// - Parameters:
    ///   - generation: The highest generation so far.
    ///   - waiters: How many requests wait now.
    mutating func perform(_ call: TokenCall, after generation: Int, waiters: () -> Int) async -> End {
        if let uncommitted { return await commit(uncommitted) }
        if phase != .open, let end = await open(call, after: generation) { return end }
        let end = await renew(call, after: max(generation, record?.generation ?? 0), waiters: waiters)
        // If the store is not shared, the gateway keeps the lease for its next attempt, which saves a write.
        if context.store.isShared, pendingWrite == .none { await endLease() }
        return end
    }

    private mutating func commit(_ uncommitted: Uncommitted) async -> End {
        self.uncommitted = uncommitted
        if let failure = await context.commit(uncommitted.event) { return .failed(failure) }
        self.uncommitted = nil
        return .obtained(uncommitted.fresh)
    }

    func fresh(_ record: StoredToken) -> FreshToken {
        var fresh = FreshToken(
            generation: record.generation,
            token: record.token,
            injection: context.grant.injection(of: record.token),
            signer: context.grant.signer(with: record.token),
            isRejected: record.isRejected
        )
        fresh.lacksRefreshToken = context.lacksRefreshToken(record.token)
        return fresh
    }

    mutating func storeRejection(of generation: Int) async {
        if known.reject(generation) { await save() }
    }

    // MARK: The record

    /// Replaces the current record, and drops what belongs to it: a write that the store has not taken, and an event that the audit
    /// log has not taken.
    ///
    /// - Returns: The token whose event was dropped.
    @discardableResult
    private mutating func replaceRecord(with token: StoredToken?) -> Uncommitted? {
        known.replace(with: token)
        pendingWrite = .none
        return uncommitted.take()
    }
}

/// Getting the next token from the authorization server.
///
/// A grant that rotates spends its refresh token with each call. Six things can go wrong:
///
/// - *The answer is lost* after the server may have acted on the request (timeout, cut connection, a broken 2xx or 5xx). The
///   journal stays in the store, and the state is `rotation_uncertain`. The call is repeated after the usual pause, but the store
///   is read first: if somebody else has rotated in the meantime, their token is adopted and nothing is sent. Sending the same
///   refresh token again does no further harm. Either it was never used, so that this call works; or its successor never reached
///   us, and only a server that tolerates a repetition can still help.
/// - *The next refresh token comes without a usable access token*: with an earlier step of a longer attempt, or in an unexpected
///   answer. It is stored together with the one that was sent, and sent the next time. A refresh token from an unexpected answer
///   may be invalid: until it has worked, the state is `rotation_uncertain`, and the last one that worked is kept. That one is sent
///   after any refusal that may be about the refresh token.
/// - *The access token is usable, but the refresh token that came with it is not.* The access token is used. The refresh token that
///   was sent is probably spent, so the state is `rotation_uncertain`.
/// - *The gateway crashes* between sending and storing. The next start finds the journal and goes on as above.
/// - *The answer is lost, or the gateway crashes, and the grant can acquire anew* (`oauth2_password`, a recipe with `acquire`).
///   The next call does so at once, because the refresh token may be spent.
/// - *The refresh token is refused.* The gateway tries, each once: what the store now holds, then the previous refresh token (only
///   after an uncertain rotation, since the server may not have confirmed the last one or may never have issued it). Otherwise a
///   person must log in. The record says so, and other gateways and later starts do not send the refresh token by themselves.
extension TokenRenewer {
    private mutating func renew(_ call: TokenCall, after generation: Int, waiters: () -> Int) async -> End {
        if let failure = manualRenewal(insteadOf: call) { return await refused(failure, call) }
        if isUncertain, let adopted = await adoptFromStore(),
            let end = await use(adopted, after: generation, call.trigger)
        {
            return end
        }
        var holding = record?.token
        var steps = RenewalSteps(rotatesRefreshToken: context.grant.rotatesRefreshToken)
        while true {
            // The record may have changed since.
            if let failure = manualRenewal(insteadOf: call) { return await refused(failure, call) }
            let parent: LiveToken?
            switch await parentToken(for: call) {
            case .success(let token): parent = token
            case .failure(let failure):
                await reportFailure(failure, call, nil, code: nil, took: .zero, waiters: waiters())
                return .failed(failure)
            }
            let attempt = attempt(call, holding: holding, parent: parent)
            let first = context.grant.firstStep(of: attempt)
            if case .impossible(let failure) = first { return await refused(failure, call) }
            switch await prepare(call, after: generation, sending: context.grant.sendsRefreshToken(in: attempt)) {
            case .granted: break
            case .ended(let end): return end
            case .again:
                holding = record?.token
                continue
            }
            switch await perform(first, in: attempt) {
            case .token(let token, let reply, let duration, let isSpent):
                let (next, spent) = (known.nextGeneration(after: generation), holding?.refreshToken)
                let accepted = known.successor(of: spent, with: token, as: next, isSpent ? newAttempt(of: next) : nil)
                return await accept(accepted, from: parent, call, reply, duration, waiters())
            case .parentRefused(let failure, let reply, let duration):
                let code = failure.problem.cause?.code
                await reportFailure(failure, call, reply, code: code, took: duration, waiters: waiters())
                guard let parent, steps.renewsParent() else { return await refused(failure, call) }
                context.parent?.rejected(generation: parent.generation, by: demand(of: call))
            case .failure(let failed):
                let (failure, sent) = (failed.failure, holding?.refreshToken)
                await settle(failed.refreshToken, of: sent)
                let (code, took) = (failed.code, failed.took)
                await reportFailure(failure, call, failed.reply, code: code, took: took, waiters: waiters())
                let looksForAnother =
                    steps.lookForAnother(after: failure, of: sent)
                    || steps.passesOver(sent, after: failed.reply, in: record, isUncertain: isUncertain)
                guard looksForAnother else {
                    if failed.refreshToken.isLost { known.answerLost() }
                    // A busy server says nothing about an earlier attempt.
                    if failed.reply != nil, await noteRefusal(of: sent, by: failure) {
                        return await refused(failure, call)
                    }
                    if !isUncertain { await strikeJournal() }
                    return await refused(failure, call)
                }
                if steps.readsStore, let adopted = await adoptFromStore() {
                    steps.adopted()
                    if let end = await use(adopted, after: generation, call.trigger) { return end }
                    holding = adopted.token
                } else if let previous = steps.previous(of: record, isUncertain: isUncertain) {
                    holding = previous
                } else {
                    return await giveUp(failure, call, steps)
                }
            }
        }
    }

    /// Why a call is not made automatically. An operator may know that the server accepts the refresh token again.
    private mutating func manualRenewal(insteadOf call: TokenCall) -> TokenFailure? {
        guard call.trigger == .operator else { return manualRenewal }
        known.forgetRefusal()
        return nil
    }

    private func attempt(_ call: TokenCall, holding: TokenSet?, parent: LiveToken?) -> GrantAttempt {
        var attempt = context.attempt(holding: holding)
        attempt.parentToken = parent?.access
        attempt.mayAcquireAnew = call.mayAcquireAnew
        attempt.isRefreshTokenUncertain = isUncertain && context.grant.canAcquireAnew
        return attempt
    }

    /// Stores what a failed call has changed about the refresh token.
    private mutating func settle(_ refreshToken: RefreshTokenState, of sent: Secret?) async {
        if known.keep(refreshToken, spending: sent) { await save() }
        if refreshToken.isRefused, known.dropRefreshToken(sent) { await save() }
    }

    private var isFirst: Bool { record?.isRevoked ?? true }

    private mutating func prepare(
        _ call: TokenCall,
        after generation: Int,
        sending sendsRefreshToken: Bool
    ) async -> Clearance {
        let clearance = await takeSharedLease(for: call, after: generation)
        guard case .granted = clearance else { return clearance }
        var event = context.event(isFirst ? .acquiring : .renewing, trigger: call.trigger)
        event.generation = record?.generation
        event.demand = call.demand
        if let failure = await context.commit(event) { return .ended(.failed(failure)) }
        guard sendsRefreshToken || context.grant.rotatesRefreshToken else { return .granted }
        return await journal(for: call, after: generation)
    }

    private mutating func accept(
        _ accepted: StoredToken,
        from parent: LiveToken?,
        _ call: TokenCall,
        _ reply: TokenReply?,
        _ duration: Duration,
        _ waiters: Int
    ) async -> End {
        let (generation, token) = (accepted.generation, accepted.token)
        var event = context.event(isFirst ? .acquired : .renewed, generation: generation, trigger: call.trigger)
        // If an operator's token is not stored yet, its successor is written like it: whatever the store holds.
        let isOperators = pendingWrite.isOperators
        replaceRecord(with: accepted)
        context.callLimit?.passwordWorked()
        await save(asOperators: isOperators, endingLease: true)
        if let entry = overtakenBy.take() { return await drop(event, of: accepted, for: entry, call) }
        event.demand = call.demand
        event.httpStatus = reply?.httpStatus
        event.expiresAt = token.expiresAt
        event.duration = duration
        event.waiters = waiters
        event.token = token.access
        if let parent, let name = context.parent?.name {
            event.detail["parent"] = name
            event.detail["parent_generation"] = String(parent.generation)
        }
        context.metrics.called(outcome: "ok", took: duration)
        context.logger.info(
            "Token obtained",
            metadata: [
                "gateway.credential": "\(context.name)", "gateway.generation": "\(generation)",
                "gateway.trigger": "\(call.trigger.rawValue)",
                "gateway.expires_at": "\(token.expiresAt?.rfc3339 ?? "unknown")",
            ]
        )
        return await commit(Uncommitted(fresh: fresh(accepted), event: event))
    }

    /// Somebody else wrote first: an operator has withdrawn the token or brought another one, or another gateway has taken over.
    private mutating func drop(
        _ event: TokenEvent,
        of accepted: StoredToken,
        for entry: TokenEntry,
        _ call: TokenCall
    ) async -> End {
        var event = event
        event.token = accepted.token.access
        await noteOvertaken(event)
        replaceRecord(with: stored.seen.token)
        // The dropped token's generation was not used. The record may have a lower one than the token in use: see `adoption`.
        switch await apply(entry, after: accepted.generation - 1) {
        case .adopted(var fresh):
            // The server was called, although its token was dropped.
            fresh.isAdopted = false
            return .obtained(fresh)
        case .withdrawn, .nothing: return .withdrawn
        }
    }

    private func reportFailure(
        _ failure: TokenFailure,
        _ call: TokenCall,
        _ reply: TokenReply?,
        code: String?,
        took duration: Duration,
        waiters: Int
    ) async {
        let code = code ?? failure.problem.kind.rawValue
        let said = failure.authorityError?.members(clockSkew: reply?.clockSkewSeconds) ?? [:]
        context.metrics.called(outcome: code, took: duration)
        var metadata: Logger.Metadata = [
            "gateway.credential": "\(context.name)", "gateway.error": "\(code)",
            "gateway.problem": "\(failure.problem.kind.rawValue)", "gateway.trigger": "\(call.trigger.rawValue)",
            "gateway.explanation": "\(failure.problem.detail)",
        ]
        if let status = reply?.httpStatus { metadata["gateway.http_status"] = "\(status)" }
        metadata.merge(said.map { ("gateway.\($0)", "\($1)") }) { $1 }
        context.logger.warning("Token could not be obtained", metadata: metadata)
        let name: TokenEvent.Name = isFirst ? .acquisitionFailed : .renewalFailed
        var event = context.event(name, generation: record?.generation, trigger: call.trigger)
        event.demand = call.demand
        event.outcome = .failed
        event.httpStatus = reply?.httpStatus
        event.errorCode = code
        event.duration = duration
        event.waiters = waiters
        event.detail.merge(said) { $1 }
        await context.note(event)
    }
}

/// The token that this one is made from.
extension TokenRenewer {
    /// - Returns: nil if the grant needs none.
    private func parentToken(for call: TokenCall) async -> Result<LiveToken?, TokenFailure> {
        guard let parent = context.parent else {
            return context.parentProblem().map { .failure(TokenFailure(.transient(retryAfter: nil), problem: $0)) }
                ?? .success(nil)
        }
        return await parent.liveToken(for: demand(of: call), within: TokenKeeper.callDeadline)
            .map { $0 }
            .mapError { problem in
                var problem = problem
                problem.detail = "\(context.name) is made from the token of \(parent.name). \(problem.detail)"
                // It works again as soon as the parent does, whatever the parent needs for that.
                return TokenFailure(.transient(retryAfter: problem.retryAfter), problem: problem)
            }
    }

    /// The request on whose behalf the parent is asked, or one that names this credential.
    private func demand(of call: TokenCall) -> CredentialRequest {
        call.demand ?? CredentialRequest(route: "credentials.\(context.name)", client: nil, requestID: "")
    }
}

/// What follows if the server refuses the refresh token: another token is tried, or a person must log in.
extension TokenRenewer {
    /// - Parameter steps: What was tried.
    private mutating func giveUp(_ failure: TokenFailure, _ call: TokenCall, _ steps: RenewalSteps) async -> End {
        var failure = failure
        if record?.isRestored == true {
            failure = failure.replacing(
                detail: context.restoredAndRefused,
                command: failure.problem.command
            )
        } else if isUncertain {
            let detail =
                "The answer to the last renewal of \(context.name) was lost or could not be used, and the authorization server no longer"
                + " accepts the refresh token. A new login is needed."
            failure = failure.replacing(detail: detail, command: failure.problem.command)
        }
        // Shown until somebody has logged in, since this is why a login is needed.
        let wasUncertain = isUncertain
        let stored = record?.token.refreshToken
        let isNoted = await noteRefusal(of: steps.hasRefused(stored) ? stored : nil, by: failure)
        if !isNoted { await strikeJournal() }
        known.goOnShowing(isUncertain: wasUncertain)
        return await refused(failure, call)
    }

    /// Stores that the server has refused the refresh token, so that no other gateway and no later start sends it by itself.
    ///
    /// - Returns: Whether the refusal was noted. If so, the journal was removed, too.
    private mutating func noteRefusal(of sent: Secret?, by failure: TokenFailure) async -> Bool {
        guard known.noteRefusal(of: sent, by: failure) else { return false }
        await save(endingLease: true)
        return true
    }

    private mutating func refused(_ failure: TokenFailure, _ call: TokenCall) async -> End {
        if failure.clearsToken {
            let wasUncertain = isUncertain
            await withdraw(isOperators: false)
            known.goOnShowing(isUncertain: wasUncertain)
        }
        // `loginLikely` is retried; only its first occurrence is reported: see ``TokenLifecycle/Failed/isEscalated``.
        if case .loginRequired = failure.class { await noteLogin(failure, call) }
        return .failed(failure)
    }

    /// - Parameter call: nil if the record says so, without a call.
    func noteLogin(_ failure: TokenFailure, _ call: TokenCall? = nil) async {
        var event = context.event(.loginRequired, generation: record?.generation, trigger: call?.trigger)
        event.demand = call?.demand
        event.outcome = .failed
        event.errorCode = failure.problem.cause?.code ?? failure.problem.kind.rawValue
        await context.note(event)
    }
}

/// The lease of a renewal. Gateways that share a store renew one after the other, and adopt each other's tokens.
extension TokenRenewer {
    /// Whether the authorization server may be called.
    private enum Clearance {
        case granted
        /// The record has changed: begin again with the new one.
        case again
        case ended(End)
    }

    /// If the store is shared, takes the lease before the call is recorded, since other gateways may be about to make the same
    /// call.
    ///
    /// If the store fails, no refresh token is sent. A grant that does not rotate goes on without the lease: at worst, two gateways
    /// get a token each.
    private mutating func takeSharedLease(for call: TokenCall, after generation: Int) async -> Clearance {
        guard context.store.isShared else { return .granted }
        do throws(TokenStoreError) {
            let isNew = stored.lease == nil
            let clearance = try await takeLease(writing: nil, for: call, after: generation)
            if case .granted = clearance, isNew, pendingWrite == .none, known.takeUpJournal(of: stored.seen.token) {
                return .again
            }
            return clearance
        } catch {
            await report(error, while: "lease", generation: record?.generation)
            guard context.grant.rotatesRefreshToken else { return .granted }
            return .ended(.failed(unreadable(error)))
        }
    }

    /// Stores that the refresh token is about to be spent. Otherwise, after a crash, it could not be told whether it was sent.
    /// Takes the lease in the same step, if there is none yet.
    private mutating func journal(for call: TokenCall, after generation: Int) async -> Clearance {
        guard let record, let journalled = known.journalled(newAttempt(of: record.generation)) else { return .granted }
        do throws(TokenStoreError) {
            return try await takeLease(writing: journalled, for: call, after: generation)
        } catch {
            await report(error, while: "journal", generation: journalled.generation)
            // A grant that does not rotate loses nothing without a journal.
            return context.grant.rotatesRefreshToken ? .ended(.failed(unreadable(error))) : .granted
        }
    }

    private func newAttempt(of generation: Int) -> RotationAttempt {
        RotationAttempt(
            id: String(UInt64.random(in: .min ... .max), radix: 16),
            generation: generation,
            startedAt: context.clock.now().wall
        )
    }

    private mutating func takeLease(
        writing token: StoredToken?,
        for call: TokenCall,
        after generation: Int
    ) async throws(TokenStoreError) -> Clearance {
        // Otherwise, the record that the operator's token replaces would be adopted.
        if pendingWrite.isOperators, let record {
            stored.replace(with: record, as: try await context.store.replace(record, for: context.key))
            pendingWrite = .none
        }
        let answer: TokenLeaseAnswer
        if let lease = stored.lease {
            // A lease from an earlier attempt may be about to expire.
            answer =
                if let token {
                    try await context.store.save(token, under: lease)
                } else {
                    try await context.store.prolong(lease, for: RenewalLease.duration)
                }
        } else {
            answer = try await context.store.lease(
                context.key,
                expecting: stored.revision,
                for: RenewalLease.duration,
                writing: token
            )
        }
        switch stored.leased(answer, writing: token, holding: record) {
        case .begin:
            if let token {
                known.noteJournal(token.attempt)
                pendingWrite = .none
            }
            return .granted
        case .wait(let time): return .ended(.held(time))
        case .withdrawn:
            await withdrawnByOthers()
            return .ended(.withdrawn)
        case .adopt(let token): return await use(token, after: generation, call.trigger).map { .ended($0) } ?? .again
        case .again:
            learnOfRevocation()
            known.follow(stored.seen.token)
            return .again
        }
    }

    /// Calls the authorization server, and keeps the lease while it waits.
    private func perform(_ first: GrantStep, in attempt: GrantAttempt) async -> AuthorityCall.Outcome {
        let call = AuthorityCall(context: context)
        guard let lease = stored.lease else { return await call.perform(first, in: attempt) }
        return await withTaskGroup(of: Void.self) { group in
            group.addTask { await context.keep(lease) }
            let outcome = await call.perform(first, in: attempt)
            group.cancelAll()
            return outcome
        }
    }

    /// Releases the lease after a call that brought no token, so that other gateways can renew.
    mutating func endLease() async {
        guard let lease = stored.giveUpLease() else { return }
        do throws(TokenStoreError) {
            try await context.store.release(lease)
        } catch {
            // The lease expires anyway.
            await report(error, while: "release", generation: record?.generation)
        }
    }
}

extension KeeperContext {
    /// Prolongs a lease until the task is cancelled, or until the lease is lost.
    fileprivate func keep(_ lease: TokenLease) async {
        while (try? await clock.sleep(for: RenewalLease.prolongedEvery)) != nil {
            let answer = try? await store.prolong(lease, for: RenewalLease.duration)
            switch answer {
            // The store may work again the next time.
            case .granted?, nil: continue
            case .changed?, .held?: return
            }
        }
    }
}

/// The store: opening it, writing to it, and reporting its failures.
extension TokenRenewer {
    /// Looks for a token in the store, then in the configuration.
    ///
    /// - Returns: nil if a call has to be made: a request waits for it, a renewal was interrupted, or the token is to be obtained
    ///   before it is needed.
    private mutating func open(_ call: TokenCall, after generation: Int) async -> End? {
        if phase == .unread { phase = .closed }
        do throws(TokenStoreError) {
            replaceRecord(with: phase == .forgotten ? nil : try await load())
        } catch {
            await report(error, while: "load", generation: nil)
            // The store may hold a newer refresh token than the configuration. Spending the older one could invalidate both.
            if context.grant.rotatesRefreshToken { return .failed(unreadable(error)) }
        }
        if let found = record, !found.isRevoked {
            if let failure = await context.refusal(ofLookFor: call) { return .failed(failure) }
            return await use(found, from: "store", call)
        }
        if record == nil, let seeded = seedRecord(after: generation) {
            replaceRecord(with: seeded)
            await save()
            return await use(seeded, from: "configuration", call, renewing: context.grant.renewsSeed)
        }
        phase = .open
        guard call.isFirstLook else { return nil }
        if record?.isRevoked == true, let obstacle { return await refused(obstacle, call) }
        // A token that only a person can bring is not requested; the status says so.
        return context.policy.acquireOn == .startup && obstacle == nil ? nil : .nothing
    }

    /// Loads the record from the store, or else from the configuration, for a command that comes before the first call. The token
    /// is not used.
    ///
    /// - Parameter highestGeneration: The highest generation so far, which `clear` does not reset.
    mutating func loadRecord(highestGeneration: Int) async throws(TokenStoreError) {
        guard phase == .unread || phase == .closed, record == nil else { return }
        replaceRecord(with: try await load() ?? seedRecord(after: highestGeneration))
    }

    private mutating func load() async throws(TokenStoreError) -> StoredToken? {
        stored.load(try await context.store.load(context.key))
        return stored.seen.token
    }

    /// The token in the configuration; nil if it has none.
    private func seedRecord(after highestGeneration: Int) -> StoredToken? {
        context.grant.seed(at: context.clock.now()).map { StoredToken(generation: highestGeneration + 1, token: $0) }
    }

    /// Why no token can be obtained without a person; nil if one can.
    var obstacle: TokenFailure? {
        if let manualRenewal { return manualRenewal }
        // Such a grant lacks only the parent's token, which is requested with the call.
        guard context.parent == nil else { return nil }
        let attempt = context.attempt(holding: record?.token)
        guard case .impossible(let failure) = context.grant.firstStep(of: attempt) else { return nil }
        return failure
    }

    /// Why the current token cannot be renewed without a person; nil if it can, or if there is no token.
    private var manualRenewal: TokenFailure? {
        guard let record, !record.isRevoked else { return nil }
        switch known.hold {
        case .refused(let refusal): return refusal.failure
        case .restored: return context.restored
        case nil: return record.token.access.isEmpty ? nil : context.manualRenewal
        }
    }

    private mutating func use(
        _ found: StoredToken,
        from origin: String,
        _ call: TokenCall,
        renewing: Bool = false
    ) async -> End? {
        var event = context.event(.loaded, generation: found.generation, trigger: call.trigger)
        event.expiresAt = found.token.expiresAt
        // The configuration may have only a refresh token.
        event.token = found.token.access.isEmpty ? nil : found.token.access
        event.detail = ["from": origin]
        if found.attempt != nil { event.detail["renewal"] = "cut_off" }
        if found.isRestored { event.detail["renewal"] = "restored" }
        if let failure = await context.commit(event) { return .failed(failure) }
        phase = .open
        context.logger.info(
            "Token loaded",
            metadata: [
                "gateway.credential": "\(context.name)", "gateway.generation": "\(found.generation)",
                "gateway.from": "\(origin)",
            ]
        )
        known.begin(with: found)
        guard call.trigger != .operator else { return nil }
        if found.isRejected, let obstacle { return await refused(obstacle, call) }
        var token = fresh(found)
        let isDue = isUncertain || renewing || (found.isRejected && context.policy.acquireOn == .startup)
        token.isRenewalDue = isDue && manualRenewal == nil
        return .obtained(token)
    }

    /// Writes the record, if nobody else has changed it in the store.
    ///
    /// - Parameters:
    ///   - asOperators: For an operator: it is written whatever the store holds. If the write fails, its repetition is an
    ///     operator's, too.
    ///   - endsLease: This is the last write of the attempt.
    private mutating func save(asOperators: Bool = false, endingLease endsLease: Bool = false) async {
        guard let record else { return }
        let isOperators = asOperators || pendingWrite.isOperators
        let pause: Duration?
        do throws(TokenStoreError) {
            pause = try await write(record, asOperators: isOperators, endingLease: endsLease)
        } catch {
            pause = Self.saveInterval
            await report(error, while: "save", generation: record.generation)
        }
        pendingWrite =
            pause.map { PendingWrite(isOperators: isOperators, due: context.clock.now().monotonic + $0) } ?? .none
    }

    /// - Returns: How long to wait before the next attempt; nil if none is necessary.
    private mutating func write(
        _ written: StoredToken?,
        asOperators: Bool,
        endingLease endsLease: Bool
    ) async throws(TokenStoreError) -> Duration? {
        var record = written
        if asOperators {
            overtakenBy = nil
            stored.replace(with: record, as: try await context.store.replace(record, for: context.key))
            return nil
        }
        // Each attempt uses the revision that the one before has returned. A removal takes a lease first.
        for _ in 1...3 {
            let write: StoredRecord.Write
            if let lease = stored.lease, endsLease || record == nil {
                let answer = try await context.store.commit(record, under: lease)
                write = stored.saved(answer, writing: record, holding: self.record)
            } else if let lease = stored.lease, let record {
                let answer = try await context.store.save(record, under: lease)
                write = stored.saved(answer, writing: record, holding: self.record)
            } else if let record {
                let answer = try await context.store.save(record, for: context.key, expecting: stored.revision)
                write = stored.saved(answer, writing: record, holding: self.record)
            } else {
                let answer = try await context.store.lease(
                    context.key,
                    expecting: stored.revision,
                    for: RenewalLease.duration,
                    writing: nil
                )
                write = stored.leasedForRemoval(answer, holding: self.record)
            }
            switch write {
            case .done: return nil
            case .again:
                guard record != nil else { continue }
                known.keepFindings(of: stored.seen.token)
                record = self.record
            case .later(let time): return min(time, Self.saveInterval)
            case .overtaken(let entry):
                overtakenBy = entry
                return nil
            }
        }
        return Self.saveInterval
    }

    /// Removes the record from the store.
    ///
    /// - Parameter asOperators: For an operator: it is removed whatever the store holds.
    /// - Returns: Whether it was removed. Another gateway may be renewing the token, or may have stored another one.
    private mutating func remove(asOperators: Bool) async throws(TokenStoreError) -> Bool {
        let pause = try await write(nil, asOperators: asOperators, endingLease: true)
        return pause == nil && overtakenBy == nil
    }

    mutating func saveAgain() async {
        await save(endingLease: true)
        if pendingWrite == .none, overtakenBy == nil {
            context.logger.notice("Token stored after all", metadata: ["gateway.credential": "\(context.name)"])
        }
    }

    /// Repeats once a write that the store has not taken, for a process that is about to exit.
    ///
    /// - Parameter removes: Whether an operator wanted the token removed, if it is forgotten here.
    /// - Returns: Why the store still differs from the record; nil if it does not.
    mutating func settle(removing removes: Bool) async -> GatewayProblem? {
        if pendingWrite != .none { await saveAgain() }
        guard pendingWrite == .none else {
            let detail =
                "The token store did not accept the change to \(context.name); the log says why. Repeat this when the store"
                + " works again."
            return GatewayProblem(.storeUnavailable, detail)
        }
        guard removes, phase == .forgotten else { return nil }
        return await forget(isOperators: true)
    }

    private mutating func strikeJournal() async {
        if known.strikeJournal() { await save(endingLease: true) }
    }

    private func report(_ error: TokenStoreError, while operation: String, generation: Int?) async {
        context.metrics.storeFailed()
        let (kind, reason) =
            switch error {
            case .unavailable(let text): ("unavailable", text)
            case .damaged(let text): ("damaged", text)
            }
        context.logger.error(
            "Token store failed",
            metadata: [
                "gateway.credential": "\(context.name)", "gateway.operation": "\(operation)",
                "gateway.reason": "\(reason)",
            ]
        )
        var event = context.event(.storeFailed, generation: generation)
        event.outcome = .failed
        event.detail = ["operation": operation, "reason": kind]
        await context.note(event)
    }

    func unreadable(_ error: TokenStoreError) -> TokenFailure {
        switch error {
        case .unavailable:
            let detail =
                context.grant.rotatesRefreshToken
                ? "The token store is unavailable, so the refresh token of \(context.name) is not used."
                : "The token store is unavailable, so the token of \(context.name) is not known."
            return TokenFailure(
                .transient(retryAfter: nil),
                problem: GatewayProblem(.storeUnavailable, detail)
            )
        case .damaged:
            let detail =
                "The stored token of \(context.name) cannot be read; the log says why. Restore the store or its"
                + " key, or forget the token."
            return TokenFailure(
                .terminal,
                problem: GatewayProblem(
                    .credentialMisconfigured,
                    detail,
                    command: GatewayCommand.line("token", "clear", context.name)
                )
            )
        }
    }
}

/// What others have written to the store: another token is adopted, and a withdrawal is followed.
extension TokenRenewer {
    /// The effect of a change that somebody else has made.
    enum StoreChange {
        /// There is nothing to do.
        case nothing
        case adopted(FreshToken)
        case withdrawn
    }

    /// - Parameter generation: The highest generation so far.
    mutating func apply(_ changed: TokenEntry, after generation: Int) async -> StoreChange {
        guard changed.revision != stored.revision, let entry = await latest(changed) else { return .nothing }
        let change = stored.change(to: entry, holding: record)
        switch change {
        case .none:
            stored.load(entry)
            learnOfRevocation()
            known.followRefusal(of: stored.seen.token)
            return .nothing
        case .wentBack:
            await reportLoss(of: entry)
            return .nothing
        case .withdrawn:
            stored.load(entry)
            await withdrawnByOthers()
            return .withdrawn
        case .newer(let token):
            stored.load(entry)
            return .adopted(await adopt(token, after: generation))
        }
    }

    /// A change older than the known revision was read before our own write, or the store went back.
    ///
    /// - Returns: nil if it was read before our own write.
    private mutating func latest(_ changed: TokenEntry) async -> TokenEntry? {
        guard changed.revision < stored.revision else { return changed }
        do throws(TokenStoreError) {
            let entry = try await context.store.load(context.key)
            return entry.revision == stored.revision ? nil : entry
        } catch {
            await report(error, while: "load", generation: record?.generation)
            return nil
        }
    }

    /// Takes over a record that says that the token was revoked: it keeps the token in the configuration from being used.
    private mutating func learnOfRevocation() {
        guard record == nil, let token = stored.seen.token, token.isRevoked else { return }
        replaceRecord(with: token)
    }

    /// Uses the token even if its event cannot be recorded, because the current one may have been revoked.
    private mutating func adopt(_ token: StoredToken, after generation: Int) async -> FreshToken {
        let (adopted, event) = await adoption(of: token, after: generation, nil)
        await context.note(event)
        return fresh(adopted: adopted)
    }

    /// - Returns: nil if the adopted token has expired or was rejected, so that it has to be renewed first.
    private mutating func use(_ found: StoredToken, after generation: Int, _ trigger: TokenEvent.Trigger) async -> End?
    {
        let (adopted, event) = await adoption(of: found, after: generation, trigger)
        let isLive = !adopted.isRejected && adopted.token.expiresAt.map { $0 > context.clock.now().wall } ?? true
        guard isLive else {
            await context.note(event)
            return nil
        }
        return await commit(Uncommitted(fresh: fresh(adopted: adopted), event: event))
    }

    private func fresh(adopted record: StoredToken) -> FreshToken {
        var token = fresh(record)
        token.isAdopted = true
        return token
    }

    /// - Returns: The adopted record, and the event to commit.
    private mutating func adoption(
        of found: StoredToken,
        after generation: Int,
        _ trigger: TokenEvent.Trigger?
    ) async -> (StoredToken, TokenEvent) {
        var adopted = found
        // Late rejections of our earlier token must not affect the adopted one.
        adopted.generation = max(found.generation, generation + 1)
        let dropped = replaceRecord(with: adopted)
        phase = .open
        await noteOvertaken(dropped?.event)
        var event = context.event(.adopted, generation: adopted.generation, trigger: trigger)
        event.expiresAt = adopted.token.expiresAt
        event.token = adopted.token.access
        return (adopted, event)
    }

    /// Another gateway may have rotated the token and stored the new one.
    private mutating func adoptFromStore() async -> StoredToken? {
        do throws(TokenStoreError) {
            let entry = try await context.store.load(context.key)
            let change = stored.change(to: entry, holding: record)
            guard case .newer(let token) = change, token.generation >= record?.generation ?? 0 else { return nil }
            stored.load(entry)
            return token
        } catch {
            await report(error, while: "load", generation: record?.generation)
            return nil
        }
    }

    /// Follows the withdrawal of the token at another gateway, by an operator or by the authorization server.
    private mutating func withdrawnByOthers() async {
        let generation = record?.generation
        let dropped = replaceRecord(with: stored.seen.token)
        // The configuration may have a token, unless the record says that it was revoked.
        phase = record == nil ? .closed : .open
        await noteOvertaken(dropped?.event)
        var event = context.event(.cleared, generation: generation)
        event.detail = ["from": "store"]
        await context.note(event)
    }

    /// Records that a token was obtained but not used: it was replaced, or an operator has withdrawn it.
    private func noteOvertaken(_ event: TokenEvent?) async {
        guard var event else { return }
        event.outcome = .failed
        event.errorCode = ProblemKind.tokenTemporarilyUnavailable.rawValue
        event.detail["reason"] = "overtaken"
        await context.note(event)
    }

    private mutating func reportLoss(of entry: TokenEntry) async {
        stored.load(entry)
        context.logger.error(
            "The token store went back to an earlier record; the later token is stored again",
            metadata: ["gateway.credential": "\(context.name)"]
        )
        var event = context.event(.storeFailed, generation: record?.generation)
        event.outcome = .failed
        event.detail = ["operation": "load", "reason": "went_back"]
        await context.note(event)
        await save()
    }
}

/// Commands of operators: forgetting, importing and revoking a token.
extension TokenRenewer {
    /// - Returns: Why the token may come back at the next start; nil if it cannot.
    mutating func clear(after generation: Int) async -> GatewayProblem? {
        let problem = await forget(isOperators: true)
        let event = context.event(.cleared, generation: generation == 0 ? nil : generation, trigger: .operator)
        unrecorded = await context.note(event)
        return problem
    }

    /// Forgets the token. When one is needed next, the store and the configuration are read again.
    ///
    /// - Parameter isOperators: For an operator: it is removed whatever the store holds.
    private mutating func forget(isOperators: Bool) async -> GatewayProblem? {
        let generation = record?.generation
        let dropped = replaceRecord(with: nil)
        phase = .forgotten
        do throws(TokenStoreError) {
            if try await remove(asOperators: isOperators) { phase = .closed }
            await noteOvertaken(dropped?.event)
            return nil
        } catch {
            await report(error, while: "remove", generation: generation)
            await noteOvertaken(dropped?.event)
            let others = context.store.isShared ? " Other gateways still use it." : ""
            let detail =
                "The token of \(context.name) is forgotten until the gateway restarts, but the store did not remove it;"
                + " the log says why.\(others) Repeat this when the store works again."
            return GatewayProblem(.tokenTemporarilyUnavailable, detail)
        }
    }

    /// - Parameters:
    ///   - name: What brought the token: an import or a login.
    ///   - highest: The highest generation so far.
    mutating func take(
        _ token: TokenSet,
        as name: TokenEvent.Name,
        after highest: Int
    ) async -> Result<FreshToken, TokenFailure> {
        let generation = known.nextGeneration(after: highest)
        let isIncomplete = token.access.isEmpty
        let record =
            isIncomplete && name == .loginCompleted
            ? known.login(with: token, as: generation, newAttempt(of: generation))
            : StoredToken(generation: generation, token: token, isRejected: isIncomplete)
        var event = context.event(name, generation: generation, trigger: .operator)
        event.expiresAt = token.expiresAt
        event.token = isIncomplete ? nil : token.access
        if let failure = await context.commit(event) { return .failure(failure) }
        let dropped = replaceRecord(with: record)
        phase = .open
        await save(asOperators: true)
        await noteOvertaken(dropped?.event)
        return .success(fresh(record))
    }

    /// The record before the import of a token that may turn out to be invalid.
    struct Earlier {
        let record: StoredToken?
        /// Whether the record came from an operator and the store has not taken it yet.
        let isOperatorsWrite: Bool
    }

    var earlier: Earlier { Earlier(record: record, isOperatorsWrite: pendingWrite.isOperators) }

    /// Restores the record from before `refused` was imported. Whatever somebody else has written since then stays.
    mutating func restore(_ earlier: Earlier, inPlaceOf refused: TokenSet) async {
        // If the store has not taken the import, nothing was replaced there.
        let isOperators = pendingWrite.isOperators && earlier.isOperatorsWrite
        stored.ignoreOwnWrite(refused)
        if let record = earlier.record {
            replaceRecord(with: record)
            await save(asOperators: isOperators)
        } else {
            _ = await forget(isOperators: false)
        }
        phase = .open
    }

    // MARK: Revocation

    /// The first request of the revocation of one token.
    struct RevocationStart {
        let request: TokenRequest
        let attempt: GrantAttempt
    }

    enum Revocation {
        case nothing
        case impossible(GatewayProblem)
        /// One for each refresh token that may still be valid.
        case starts([RevocationStart])
    }

    var revocation: Revocation {
        let tokens = known.tokensToRevoke
        if tokens.isEmpty { return .nothing }
        var starts: [RevocationStart] = []
        for token in tokens {
            let attempt = context.attempt(holding: token)
            switch context.grant.revocation(in: attempt) {
            // Some grants revoke the access token, and both refresh tokens are stored with the same one.
            case .request(let request) where starts.contains { $0.request == request }: continue
            case .request(let request): starts.append(RevocationStart(request: request, attempt: attempt))
            case .impossible(let reason): return .impossible(irrevocable(reason))
            }
        }
        return .starts(starts)
    }

    private func irrevocable(_ reason: String) -> GatewayProblem {
        GatewayProblem(
            .requestRefused,
            "The token of \(context.name) cannot be revoked. \(reason) To forget it here without telling the authorization server,"
                + " clear it.",
            command: GatewayCommand.line("token", "clear", context.name)
        )
    }

    /// - Returns: Why the server may still accept a token, and whether the token was forgotten here anyway.
    mutating func revoke(_ starts: [RevocationStart]) async -> (problem: GatewayProblem?, isForgotten: Bool) {
        let begun = context.clock.now().monotonic
        var end = RevocationEnd()
        for start in starts {
            let next = await takeRevocation(start, since: begun)
            if end.problem == nil { end = next }
            // If the token is kept, the whole revocation is repeated later.
            if end.problem != nil, context.grant.keepsTokenUntilRevoked { break }
        }
        var event = context.event(
            end.problem == nil ? .revoked : .revocationFailed,
            generation: record?.generation,
            trigger: .operator
        )
        event.outcome = end.problem == nil ? .ok : .failed
        event.httpStatus = end.httpStatus
        event.errorCode = end.code
        event.duration = context.clock.now().monotonic - begun
        event.token = record?.token.access
        event.detail = end.said
        unrecorded = await context.note(event)
        log(end)
        guard end.problem == nil || !context.grant.keepsTokenUntilRevoked else { return (end.problem, false) }
        if end.problem != nil {
            await context.note(context.event(.cleared, generation: record?.generation, trigger: .operator))
        }
        await withdraw(isOperators: true)
        return (end.problem, true)
    }

    /// The result of a revocation.
    private struct RevocationEnd {
        /// nil if the token is no longer valid.
        var problem: GatewayProblem?
        var httpStatus: Int?
        var code: String?
        /// See ``AuthorityError/members(clockSkew:)``.
        var said: [String: String] = [:]
    }

    /// Takes every step of the revocation of one token.
    ///
    /// - Parameter begun: When the revocation of the first token began. All tokens share one deadline.
    private func takeRevocation(_ start: RevocationStart, since begun: MonotonicTime) async -> RevocationEnd {
        var (attempt, request) = (start.attempt, start.request)
        attempt.now = context.clock.now()
        while true {
            let left = TokenKeeper.callDeadline - (attempt.now.monotonic - begun)
            let answer = await context.endpoint.send(request, deadline: max(left, .milliseconds(1)))
            attempt.now = context.clock.now()
            attempt.answers += 1
            switch answer {
            case .failure(let failure):
                var problem = TokenFailure(explaining: failure, of: request, credential: context.name).problem
                problem.detail = problem.detail.replacing("token endpoint", with: "revocation endpoint")
                return RevocationEnd(problem: problem, code: failure.reason.rawValue)
            case .success(let reply):
                var end = RevocationEnd(httpStatus: reply.status)
                switch context.grant.interpretRevocation(reply, in: &attempt) {
                case .revoked: return end
                case .failure(let problem):
                    (end.problem, end.code) = (problem, problem.cause?.code)
                    let said = context.said(reply, to: request.secrets, in: attempt)
                    end.said = said?.members(clockSkew: reply.clockSkewSeconds) ?? [:]
                    return end
                case .next(let next) where attempt.answers < GrantAttempt.maximumSteps: request = next
                case .next:
                    end.problem = TokenFailure.endless(credential: context.name).problem
                    return end
                }
            }
        }
    }

    /// Forgets a token that will never be valid again. If it may come back from the configuration, the store keeps a record that it
    /// was revoked.
    ///
    /// - Parameter isOperators: For an operator: it is written whatever the store holds.
    private mutating func withdraw(isOperators: Bool) async {
        let now = context.clock.now()
        guard context.grant.seed(at: now) != nil, let generation = record?.generation else {
            _ = await forget(isOperators: isOperators)
            return
        }
        let dropped = replaceRecord(with: .revoked(generation: generation, at: now.wall))
        phase = .open
        await save(asOperators: isOperators, endingLease: true)
        await noteOvertaken(dropped?.event)
    }

    private func log(_ end: RevocationEnd) {
        let metadata: Logger.Metadata = [
            "gateway.credential": "\(context.name)", "gateway.http_status": "\(end.httpStatus ?? 0)",
            "gateway.error": "\(end.code ?? "none")",
        ].merging(end.said.map { ("gateway.\($0)", "\($1)") }) { $1 }
        if end.problem == nil {
            context.logger.notice("Token revoked", metadata: metadata)
        } else {
            context.logger.error("Token could not be revoked", metadata: metadata)
        }
    }
}
