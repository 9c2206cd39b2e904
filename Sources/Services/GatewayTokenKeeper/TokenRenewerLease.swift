import GatewayCore
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
            return try await takeLease(writing: nil, for: call, after: generation)
        } catch {
            await report(error, while: "lease", generation: record?.generation)
            guard context.grant.rotatesRefreshToken else { return .granted }
            return .ended(.failed(unreadable(error)))
        }
    }

    /// Notes that the refresh token is about to be spent: without the note a crash could not be told from a token that was
    /// never sent. Takes the lease in the same step, if it has none yet.
    mutating func journal(for call: TokenCall, after generation: Int) async -> Clearance {
        guard var journalled = record else { return .granted }
        journalled.attempt = RotationAttempt(
            id: String(UInt64.random(in: .min ... .max), radix: 16),
            generation: journalled.generation,
            startedAt: context.clock.now().wall
        )
        do throws(TokenStoreError) {
            return try await takeLease(writing: journalled, for: call, after: generation)
        } catch {
            await report(error, while: "journal", generation: journalled.generation)
            // Nothing is lost with a refresh token where another way leads to the next one.
            return context.grant.rotatesRefreshToken ? .ended(.failed(unreadable(error))) : .granted
        }
    }

    private mutating func takeLease(
        writing token: StoredToken?,
        for call: TokenCall,
        after generation: Int
    ) async throws(TokenStoreError) -> Clearance {
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
                record = token
                saveIsDue = nil
            }
            return .granted
        case .wait(let time): return .ended(.held(time))
        case .withdrawn:
            await withdrawnByOthers()
            return .ended(.withdrawn)
        case .adopt(let token): return await use(token, after: generation, call.trigger).map { .ended($0) } ?? .again
        case .again:
            record = record ?? stored.seen.token
            if record?.token == stored.seen.token?.token { record?.attempt = stored.seen.token?.attempt }
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

    // MARK: What others have written

    /// What became of a change that somebody else has made.
    enum TakenUp {
        /// There is nothing to do.
        case nothing
        case adopted(FreshToken)
        case withdrawn
    }

    /// - Parameter generation: The highest there has been.
    mutating func takeUp(_ news: TokenEntry, after generation: Int) async -> TakenUp {
        guard news.revision != stored.revision, let entry = await latest(news) else { return .nothing }
        let change = stored.change(to: entry, holding: record)
        switch change {
        case .none:
            stored.load(entry)
            record = record ?? entry.token
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

    /// News that is older than what the renewer knows was read before the renewer wrote, or the store has lost the rest.
    private mutating func latest(_ news: TokenEntry) async -> TokenEntry? {
        guard news.revision < stored.revision else { return news }
        do throws(TokenStoreError) {
            let entry = try await context.store.load(context.key)
            return entry.revision == stored.revision ? nil : entry
        } catch {
            await report(error, while: "load", generation: record?.generation)
            return nil
        }
    }

    /// A token whose event cannot be recorded is used all the same: the one that is at hand may have been revoked.
    private mutating func adopt(_ token: StoredToken, after generation: Int) async -> FreshToken {
        let (adopted, event) = adoption(of: token, after: generation, nil)
        hasOpened = true
        await context.note(event)
        return fresh(adopted)
    }

    /// What an operator of another gateway, or the authority through it, has taken away.
    mutating func withdrawnByOthers() async {
        let generation = record?.generation
        record = stored.seen.token
        uncommitted = nil
        saveIsDue = nil
        isUncertain = false
        // The configuration may have a token, unless the record says that it was revoked.
        hasOpened = record != nil
        var event = context.event(.cleared, generation: generation)
        event.detail = ["from": "store"]
        await context.note(event)
    }

    private mutating func reportLoss(of entry: TokenEntry) async {
        stored.load(entry)
        context.logger.error(
            "The token store holds an earlier record than before; the later token is stored again",
            metadata: ["gateway.credential": "\(context.name)"]
        )
        var event = context.event(.storeFailed, generation: record?.generation)
        event.outcome = .failed
        event.detail = ["operation": "load", "reason": "went_back"]
        await context.note(event)
        await save()
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
