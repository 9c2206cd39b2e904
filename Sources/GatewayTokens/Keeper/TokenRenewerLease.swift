import GatewayHTTP
import Logging

/// The lease of a renewal. Gateways that share a store renew one after the other, and adopt each other's tokens.
extension TokenRenewer {
    /// Whether the authority may be called.
    enum Clearance {
        case granted
        /// The record is another one now: begin anew with it.
        case again
        case ended(End)
    }

    /// Takes the lease before anything is said of a call, where other gateways may be about to make the same one.
    ///
    /// A store that fails keeps a refresh token from being sent. A grant that does not rotate goes on without the lease: at
    /// worst two gateways get a token each.
    mutating func takeSharedLease(for call: TokenCall, after generation: Int) async -> Clearance {
        guard context.store.isShared else { return .granted }
        do throws(TokenStoreError) {
            let isNew = stored.lease == nil
            let clearance = try await takeLease(writing: nil, for: call, after: generation)
            if case .granted = clearance, isNew, takeUpJournal() { return .again }
            return clearance
        } catch {
            await report(error, while: "lease", generation: record?.generation)
            guard context.grant.rotatesRefreshToken else { return .granted }
            return .ended(.failed(unreadable(error)))
        }
    }

    /// A journal that was read before the lease was granted is that of a gateway that did not end its attempt.
    ///
    /// - Returns: Whether there is one that was not known.
    private mutating func takeUpJournal() -> Bool {
        guard pendingWrite == .none, let record, let seen = stored.seen.token, seen.token == record.token,
            record.attempt == nil, let attempt = seen.attempt
        else { return false }
        amendRecord { $0.attempt = attempt }
        isUncertain = true
        return true
    }

    /// Notes that the refresh token is about to be spent: without the note a crash could not be told from a token that was
    /// never sent. Takes the lease in the same step, if it has none yet.
    mutating func journal(for call: TokenCall, after generation: Int) async -> Clearance {
        guard var journalled = record else { return .granted }
        journalled.attempt = newAttempt(of: journalled.generation)
        do throws(TokenStoreError) {
            return try await takeLease(writing: journalled, for: call, after: generation)
        } catch {
            await report(error, while: "journal", generation: journalled.generation)
            // Nothing is lost with a refresh token where another way leads to the next one.
            return context.grant.rotatesRefreshToken ? .ended(.failed(unreadable(error))) : .granted
        }
    }

    func newAttempt(of generation: Int) -> RotationAttempt {
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
        // Otherwise the record that it replaces would be adopted.
        if pendingWrite.isOperators, let record {
            stored.replace(with: record, as: try await context.store.replace(record, for: context.key))
            pendingWrite = .none
        }
        let answer: TokenLeaseAnswer
        if let lease = stored.lease {
            // One that is left of an earlier attempt may be about to end.
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
                amendRecord { $0.attempt = token.attempt }
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
            if let seen = stored.seen.token, seen.token == record?.token {
                amendRecord { ($0.attempt, $0.refusal) = (seen.attempt, seen.refusal) }
            }
            isUncertain = context.isUncertain(record)
            return .again
        }
    }

    /// Asks the authority, and keeps the lease meanwhile.
    func perform(_ first: GrantStep, in attempt: GrantAttempt) async -> AuthorityCall.Outcome {
        let call = AuthorityCall(context: context)
        guard let lease = stored.lease else { return await call.perform(first, in: attempt) }
        return await withTaskGroup(of: Void.self) { group in
            group.addTask { await context.keep(lease) }
            let outcome = await call.perform(first, in: attempt)
            group.cancelAll()
            return outcome
        }
    }

    /// Lets other gateways renew, after a call that brought no token.
    mutating func endLease() async {
        guard let lease = stored.giveUpLease() else { return }
        do throws(TokenStoreError) {
            try await context.store.release(lease)
        } catch {
            // It ends by itself.
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
