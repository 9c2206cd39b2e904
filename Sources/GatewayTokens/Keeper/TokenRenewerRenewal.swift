import GatewayEvents
import GatewayHTTP
import Logging

/// Getting the next token from the authority.
///
/// A grant that rotates spends its refresh token with each call, and six things can go wrong with that:
///
/// - *The answer is lost* after the request may have been acted upon (time-out, cut connection, a broken 2xx or 5xx). The
///   journal stays in the store and the state is `rotation_uncertain`. The call is repeated after the usual pause, but
///   not blindly: the store is read first, and when somebody else has rotated in the meantime that token is adopted and
///   nothing is sent. Sending the same refresh token again cannot lose more than is lost: either it was never used
///   (then this is the call that counts), or its successor never reached us, and only an authority that forgives a
///   repetition can still help.
/// - *The next refresh token comes without an access token that can be used*: with an earlier step of a longer attempt, or
///   beside something odd. It is stored beside the one that was sent, and sent the next time. One that came beside something
///   odd may be none: until it has worked, the state is `rotation_uncertain`, and the last one that has worked is kept. That
///   one is sent after any refusal that may be about the refresh token, because what is refused may be no refresh token.
/// - *An access token that can be used comes beside a refresh token that cannot.* The access token is used. The refresh token
///   that was sent is probably spent, so the state is `rotation_uncertain`.
/// - *The gateway dies* between sending and storing. The next start finds the journal and goes on as above.
/// - *The answer is lost, or the gateway dies, and the grant can acquire anew* (`oauth2_password`, a recipe with `acquire`).
///   The next call does so at once, because the refresh token may be spent.
/// - *The refresh token is refused.* In this order, each once: what the store holds by now, then the previous refresh token
///   (only after an uncertain rotation: the authority may not have seen the last one confirmed, or never issued it). Then a
///   person must log in. The record says so, and other gateways and later starts do not send it by themselves.
extension TokenRenewer {
    mutating func renew(_ call: TokenCall, after generation: Int, waiters: () -> Int) async -> End {
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
                let next = nextGeneration(after: generation)
                var accepted = successor(of: holding?.refreshToken, with: token, as: next)
                if isSpent, context.grant.rotatesRefreshToken { accepted.attempt = newAttempt(of: next) }
                return await accept(accepted, from: parent, call, reply, duration, waiters())
            case .parentRefused(let failure, let reply, let duration):
                let code = failure.problem.cause?.code
                await reportFailure(failure, call, reply, code: code, took: duration, waiters: waiters())
                guard let parent, steps.renewsParent() else { return await refused(failure, call) }
                context.parent?.rejected(generation: parent.generation, by: demand(of: call))
            case .failure(let failed):
                let (failure, sent) = (failed.failure, holding?.refreshToken)
                await settle(failed.fate, of: sent)
                let (code, took) = (failed.code, failed.took)
                await reportFailure(failure, call, failed.reply, code: code, took: took, waiters: waiters())
                let looksForAnother =
                    steps.lookForAnother(after: failure, of: sent)
                    || steps.passesOver(sent, after: failed.reply, in: record, isUncertain: isUncertain)
                guard looksForAnother else {
                    if failed.fate.isLost { isUncertain = true }
                    // What became of an earlier attempt is no clearer for an authority that is busy now.
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

    /// Why a call is not made by itself. An operator may know that the authority accepts the refresh token again.
    private mutating func manualRenewal(insteadOf call: TokenCall) -> TokenFailure? {
        guard call.trigger == .operator else { return manualRenewal }
        amendRecord { $0.refusal = nil }
        return nil
    }

    private func attempt(_ call: TokenCall, holding: TokenSet?, parent: LiveToken?) -> GrantAttempt {
        var attempt = context.attempt(holding: holding)
        attempt.parentToken = parent?.access
        attempt.mayAcquireAnew = call.mayAcquireAnew
        attempt.isRefreshTokenUncertain = isUncertain && context.grant.canAcquireAnew
        return attempt
    }

    /// Stores what a call that failed has made of the refresh token.
    private mutating func settle(_ fate: RefreshTokenState, of sent: Secret?) async {
        if context.grant.rotatesRefreshToken { await keep(fate, spending: sent) }
        if fate.isRefused { await dropRefreshToken(sent) }
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

    /// Stores the next refresh token of an attempt that failed all the same: the one that was sent is spent.
    ///
    /// While the next one is unproven, the journal stays. With it, this gateway, a later start, other gateways and earlier
    /// versions of the program send the next one first, and the previous one if that is refused.
    private mutating func keep(_ fate: RefreshTokenState, spending spent: Secret?) async {
        guard var kept = record, let spent, let next = fate.next, next != spent else { return }
        let mayBeNone = fate.isLost || fate.isUnproven && !context.grant.canAcquireAnew
        // What was sent may be none itself. The last one that has worked must outlive a row of such answers.
        let isSpentUnproven = fate.isUnproven && kept.isUnproven && spent == kept.token.refreshToken
        kept.previousRefreshToken = isSpentUnproven ? kept.previousRefreshToken ?? spent : spent
        kept.isUnproven = fate.isUnproven && mayBeNone
        kept.token.refreshToken = next
        kept.token.refreshTokenExpiresAt = nil
        kept.token.refreshTokenObtainedAt = nil
        kept.isRestored = false
        kept.refusal = nil
        if !mayBeNone { kept.attempt = nil }
        amendRecord { $0 = kept }
        isUncertain = mayBeNone
        await save()
    }

    /// What is stored of an answer that has brought a token.
    private func successor(of spent: Secret?, with token: TokenSet, as generation: Int) -> StoredToken {
        let isRotated = context.grant.rotatesRefreshToken && token.refreshToken != spent
        // One that has just worked needs no previous one.
        return StoredToken(generation: generation, token: token, previousRefreshToken: isRotated ? spent : nil)
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
        // The successor of what an operator brought takes its place in the store, too.
        let isOperators = pendingWrite.isOperators
        replaceRecord(with: accepted)
        context.callLimit?.passwordWorked()
        await save(asOperators: isOperators, endingLease: true)
        if let entry = overtakenBy.take() { return await drop(event, of: token, for: entry, call) }
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

    /// Somebody was before: an operator has taken the token away or brought another one, or another gateway has taken over.
    private mutating func drop(
        _ event: TokenEvent,
        of token: TokenSet,
        for entry: TokenEntry,
        _ call: TokenCall
    ) async -> End {
        var event = event
        event.token = token.access
        await noteOvertaken(event)
        replaceRecord(with: stored.seen.token)
        switch await apply(entry, after: record?.generation ?? 0) {
        case .adopted(var fresh):
            // The authority was asked, for the one that was dropped.
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
        context.logger.warning(
            "Token could not be obtained",
            metadata: [
                "gateway.credential": "\(context.name)", "gateway.error": "\(code)",
                "gateway.problem": "\(failure.problem.kind.rawValue)", "gateway.trigger": "\(call.trigger.rawValue)",
                "gateway.http_status": "\(reply?.status ?? 0)",
            ].merging(said.map { ("gateway.\($0)", "\($1)") }) { $1 }
        )
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
