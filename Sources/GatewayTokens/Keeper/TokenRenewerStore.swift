import GatewayEvents
import GatewayHTTP
import Logging

/// The store: opening it, writing to it, and what is said when it fails.
extension TokenRenewer {
    /// Looks for a token in the store, then in the configuration.
    ///
    /// - Returns: nil when a call has to be made: a request waits for it, a renewal was cut off half-way, or the token is
    ///   to be obtained before it is needed.
    mutating func open(_ call: TokenCall, after generation: Int) async -> End? {
        if phase == .unread { phase = .closed }
        do throws(TokenStoreError) {
            replaceRecord(with: phase == .forgotten ? nil : try await load())
        } catch {
            await report(error, while: "load", generation: nil)
            // The store may hold a later refresh token than the configuration; spending the earlier one could cost both.
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
        // What only a person can bring is not asked for; the status says so.
        return context.policy.acquireOn == .startup && obstacle == nil ? nil : .nothing
    }

    /// Loads the record from the store, or else from the configuration, for a command that comes before the first call.
    /// Uses nothing.
    ///
    /// - Parameter highestGeneration: The highest there has been, which `clear` leaves as it is.
    mutating func loadRecord(highestGeneration: Int) async throws(TokenStoreError) {
        guard phase == .unread || phase == .closed, record == nil else { return }
        replaceRecord(with: try await load() ?? seedRecord(after: highestGeneration))
    }

    private mutating func load() async throws(TokenStoreError) -> StoredToken? {
        stored.load(try await context.store.load(context.key))
        return stored.seen.token
    }

    /// The token of the configuration; nil when it has none.
    private func seedRecord(after highestGeneration: Int) -> StoredToken? {
        context.grant.seed(at: context.clock.now()).map { StoredToken(generation: highestGeneration + 1, token: $0) }
    }

    /// Why no token can be had without a person; nil when one can.
    var obstacle: TokenFailure? {
        if let manualRenewal { return manualRenewal }
        // What such a grant lacks is the parent's token, and that is asked for with the call.
        guard context.parent == nil else { return nil }
        let attempt = context.attempt(holding: record?.token)
        guard case .impossible(let failure) = context.grant.firstStep(of: attempt) else { return nil }
        return failure
    }

    /// Why the token that there is gets no successor without a person; nil when it does, or when there is none.
    var manualRenewal: TokenFailure? {
        guard let record, !record.isRevoked else { return nil }
        if let refused = record.knownRefusal?.failure ?? context.manualRenewal(ofRestored: record) { return refused }
        return record.token.access.isEmpty ? nil : context.manualRenewal
    }

    private mutating func use(
        _ found: StoredToken,
        from origin: String,
        _ call: TokenCall,
        renewing: Bool = false
    ) async -> End? {
        var event = context.event(.loaded, generation: found.generation, trigger: call.trigger)
        event.expiresAt = found.token.expiresAt
        // A seed may be a refresh token alone.
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
        isUncertain = context.isUncertain(found)
        guard call.trigger != .operator else { return nil }
        if found.isRejected, let obstacle { return await refused(obstacle, call) }
        var token = fresh(found)
        let isDue = isUncertain || renewing || (found.isRejected && context.policy.acquireOn == .startup)
        token.isRenewalDue = isDue && manualRenewal == nil
        return .obtained(token)
    }

    /// Writes the record, if it is unchanged in the store.
    ///
    /// - Parameters:
    ///   - asOperators: It is written whatever the store holds. An operator's write that failed stays one.
    ///   - endsLease: Nothing follows in this attempt.
    mutating func save(asOperators: Bool = false, endingLease endsLease: Bool = false) async {
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

    /// - Returns: When to try again; nil when that is not necessary.
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
        // The next try names what the one before was told. A removal takes a lease first.
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
            case .again: if record != nil { record = keepFindings() }
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
    /// - Parameter asOperators: It is removed whatever the store holds.
    /// - Returns: Whether it is removed: another gateway may be renewing the token, or may have another one.
    mutating func remove(asOperators: Bool) async throws(TokenStoreError) -> Bool {
        let pause = try await write(nil, asOperators: asOperators, endingLease: true)
        return pause == nil && overtakenBy == nil
    }

    mutating func saveAgain() async {
        await save(endingLease: true)
        if pendingWrite == .none, overtakenBy == nil {
            context.logger.notice("Token stored after all", metadata: ["gateway.credential": "\(context.name)"])
        }
    }

    /// What others have found out about the token of the record is not overwritten.
    ///
    /// - Returns: What is to be written.
    private mutating func keepFindings() -> StoredToken? {
        if let seen = stored.seen.token { amendRecord { $0.keepFindings(of: seen) } }
        isUncertain = isUncertain || context.isUncertain(record)
        return record
    }

    /// The refresh token is known to be unspent, or known to be refused.
    mutating func strikeJournal() async {
        isUncertain = false
        guard record?.attempt != nil else { return }
        amendRecord { $0.attempt = nil }
        await save(endingLease: true)
    }

    func report(_ error: TokenStoreError, while operation: String, generation: Int?) async {
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
                ? "The token store does not work, so the refresh token of \(context.name) is not spent."
                : "The token store does not work, so the token of \(context.name) is not known."
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
