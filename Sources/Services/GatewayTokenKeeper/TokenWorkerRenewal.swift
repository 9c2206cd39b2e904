import GatewayCore
import Logging
import ServiceLifecycle

/// Speaking to the authority.
///
/// A grant that rotates spends its refresh token with each call, and four things can go wrong with that:
///
/// - *The answer is lost* after the request may have been acted upon (time-out, cut connection, a broken 2xx or 5xx). The
///   journal stays in the store and the state is `rotation_uncertain`. The call is repeated after the usual pause, but
///   not blindly: the store is read first, and when somebody else has rotated in the meantime that token is adopted and
///   nothing is sent. Sending the same refresh token again cannot lose more than is lost: either it was never used
///   (then this is the call that counts), or its successor never reached us, and only an authority that forgives a
///   repetition can still help.
/// - *The next refresh token comes without an access token that can be used*: with an earlier step of a longer attempt, or
///   beside something odd. It is stored by itself, and sent the next time.
/// - *The gateway dies* between sending and storing. The next start finds the journal and goes on as above.
/// - *The refresh token is refused.* In this order, each once: what the store holds by now, then the previous refresh token
///   (only after an uncertain rotation: the authority may not have seen the last one confirmed). Then a person must log
///   in.
extension TokenRenewer {
    private enum Sent {
        case token(TokenSet, TokenReply, took: Duration)
        case parentRefused(TokenFailure, TokenReply, took: Duration)
        case failure(Failed)
    }

    private struct Failed {
        let failure: TokenFailure
        var reply: TokenReply?
        let code: String?
        let fate: RefreshTokenFate
        let took: Duration
    }

    /// What the answers of an attempt tell of the token that renews.
    private struct RefreshTokenFate {
        /// The next one, once an answer has brought it.
        private(set) var next: Secret?
        /// Whether the next one, or the one at hand while there is none, may be spent.
        var isLost = false

        /// - Parameter wasSent: Whether the refresh token was part of what was asked.
        mutating func take(_ reply: TokenReply, _ meaning: GrantAnswer, in attempt: GrantAttempt, wasSent: Bool) {
            if let refreshToken = attempt.nextRefreshToken, refreshToken != next {
                next = refreshToken
                isLost = false
            } else if attempt.restartedAfterStep == attempt.answers {
                // Refused.
                isLost = false
            } else if wasSent, Self.mayHaveSpent(reply, meaning) {
                isLost = true
            }
        }

        /// Whether a refresh token that was sent may be spent when this is the answer.
        private static func mayHaveSpent(_ reply: TokenReply, _ meaning: GrantAnswer) -> Bool {
            // What is only put right after a refusal was not acted upon.
            if case .next = meaning { return reply.status < 400 }
            return (200..<300).contains(reply.status) || (reply.status >= 500 && reply.status != 503)
        }
    }

    mutating func renew(_ call: TokenCall, after generation: Int, waiters: () -> Int) async -> End {
        if call.trigger != .operator, let manualRenewal { return await refused(manualRenewal, call) }
        if isUncertain, let adopted = await adoptFromStore(), let end = await use(adopted, after: generation, call) {
            return end
        }
        var holding = record?.token
        var tried: [Secret] = []
        var hasReread = false
        var hasRenewedParent = false
        while true {
            let parent: LiveToken?
            switch await parentToken(for: call) {
            case .success(let token): parent = token
            case .failure(let failure):
                await reportFailure(failure, call, nil, code: nil, took: .zero, waiters: waiters())
                return .failed(failure)
            }
            var attempt = setup.attempt(holding: holding)
            attempt.parentToken = parent?.access
            let first = setup.grant.firstStep(of: attempt)
            if case .impossible(let failure) = first { return await refused(failure, call) }
            if let failure = await prepare(call) { return .failed(failure) }
            switch await take(first, in: attempt) {
            case .token(let token, let reply, let duration):
                let next = nextGeneration(after: generation)
                let spent = holding?.refreshToken
                return await accept(token, as: next, spent: spent, from: parent, call, reply, duration, waiters())
            case .parentRefused(let failure, let reply, let duration):
                let code = failure.problem.cause?.code
                await reportFailure(failure, call, reply, code: code, took: duration, waiters: waiters())
                // A new token that is refused as well means something else, and another one would not help.
                guard !hasRenewedParent, let parent else { return await refused(failure, call) }
                hasRenewedParent = true
                setup.parent?.rejected(generation: parent.generation, by: demand(of: call))
            case .failure(let failed):
                let failure = failed.failure
                if setup.grant.rotatesRefreshToken { await keep(failed.fate, spending: holding?.refreshToken) }
                await reportFailure(
                    failure,
                    call,
                    failed.reply,
                    code: failed.code,
                    took: failed.took,
                    waiters: waiters()
                )
                guard setup.grant.rotatesRefreshToken else { return await refused(failure, call) }
                guard isRefusal(failure) else {
                    if failed.fate.isLost { isUncertain = true }
                    // What became of an earlier attempt is no clearer for an authority that is busy now.
                    if !isUncertain { await strikeJournal() }
                    return .failed(failure)
                }
                if let refreshToken = holding?.refreshToken { tried.append(refreshToken) }
                if !hasReread, let adopted = await adoptFromStore() {
                    hasReread = true
                    if let end = await use(adopted, after: generation, call) { return end }
                    holding = adopted.token
                } else if let next = nextCandidate(after: tried) {
                    holding = next
                } else {
                    return await giveUp(failure, call)
                }
            }
        }
    }

    private var isFirst: Bool { record?.isRevoked ?? true }

    /// - Returns: Why the authority must not be called.
    private mutating func prepare(_ call: TokenCall) async -> TokenFailure? {
        var event = setup.event(isFirst ? .acquiring : .renewing, trigger: call.trigger)
        event.generation = record?.generation
        event.demand = call.demand
        if let failure = await setup.commit(event) { return failure }
        return setup.grant.rotatesRefreshToken ? await journal() : nil
    }

    /// Takes every step of an attempt, all of them within one deadline.
    private func take(_ first: GrantStep, in begun: GrantAttempt) async -> Sent {
        var (attempt, step) = (begun, first)
        var fate = RefreshTokenFate()
        let start = begun.now.monotonic
        while true {
            let left = TokenKeeper.callDeadline - (attempt.now.monotonic - start)
            let sendsRefreshToken = setup.grant.sendsRefreshToken(in: attempt)
            let answer = await answer(to: step, within: max(left, .milliseconds(1)))
            attempt.now = setup.clock.now()
            attempt.answers += 1
            let duration = attempt.now.monotonic - start
            switch answer {
            case .failure(let failure):
                fate.isLost = fate.isLost || failure.isLost && sendsRefreshToken
                let (explained, code) = (failure.explained, failure.code)
                return .failure(Failed(failure: explained, code: code, fate: fate, took: duration))
            case .success(let reply):
                let meaning = setup.grant.interpret(reply, in: &attempt)
                setup.log(&attempt.remarks)
                fate.take(reply, meaning, in: attempt, wasSent: sendsRefreshToken)
                let hop = step.nextHop
                let failed = { (failure: TokenFailure) in
                    let code = failure.problem.cause?.code
                    let named = failure.naming(hop)
                    return Sent.failure(
                        Failed(failure: named, reply: reply, code: code, fate: fate, took: duration)
                    )
                }
                switch meaning {
                case .next(let next) where attempt.answers < GrantAttempt.maximumSteps: step = .request(next)
                case .next: return failed(.endless(credential: setup.name))
                case .parentRefused(let failure): return .parentRefused(failure.naming(hop), reply, took: duration)
                case .failure(let failure): return failed(failure)
                case .token(let token):
                    guard let live = live(token, at: attempt.now.wall) else {
                        return failed(.deadOnArrival(credential: setup.name))
                    }
                    return .token(live, reply, took: duration)
                }
            }
        }
    }

    /// - Returns: nil when the token is over already. That of a pair that rotates is taken for one without a known end:
    ///   it may be the clocks, and the pair must not be lost.
    private func live(_ token: TokenSet, at now: UnixTime) -> TokenSet? {
        guard let end = token.expiresAt, end <= now else { return token }
        guard setup.grant.rotatesRefreshToken else { return nil }
        var remarks = ["the token is over already by its stated end; it is used until it is rejected"]
        setup.log(&remarks)
        var live = token
        live.expiresAt = nil
        return live
    }

    /// At shutdown nobody waits any more: a call is given up, unless it spends a refresh token.
    private func answer(to step: GrantStep, within deadline: Duration) async -> Result<TokenReply, NoAnswer> {
        guard !setup.grant.rotatesRefreshToken else { return await ask(step, deadline: deadline) }
        return await cancelWhenGracefulShutdown { await ask(step, deadline: deadline) }
    }

    private struct NoAnswer: Error {
        let explained: TokenFailure
        let code: String?
        let isLost: Bool
    }

    private func ask(_ step: GrantStep, deadline: Duration) async -> Result<TokenReply, NoAnswer> {
        switch step {
        case .request(let request):
            return await setup.endpoint.send(request, deadline: deadline).mapError { failure in
                NoAnswer(
                    explained: TokenFailure(explaining: failure, of: request, credential: setup.name),
                    code: failure.reason.rawValue,
                    isLost: failure.mayHaveBeenProcessed
                )
            }
        case .run(let program):
            let deadline = min(deadline, program.timeout)
            let output = await setup.programs.run(program, input: nil, deadline: deadline)
            return output.map { TokenReply(output: $0) }.mapError { failure in
                NoAnswer(
                    explained: TokenFailure(explaining: failure, of: program, credential: setup.name),
                    code: failure.reason.rawValue,
                    isLost: false
                )
            }
        case .impossible(let failure):
            return .failure(NoAnswer(explained: failure, code: failure.problem.cause?.code, isLost: false))
        }
    }

    /// Stores the next refresh token of an attempt that failed all the same: the one that was sent is spent.
    private mutating func keep(_ fate: RefreshTokenFate, spending spent: Secret?) async {
        guard var kept = record, let spent, let next = fate.next, next != spent else { return }
        kept.previousRefreshToken = spent
        kept.token.refreshToken = next
        kept.token.refreshTokenExpiresAt = nil
        kept.token.refreshTokenObtainedAt = nil
        if !fate.isLost { kept.attempt = nil }
        record = kept
        isUncertain = fate.isLost
        await save()
    }

    private mutating func accept(
        _ token: TokenSet,
        as generation: Int,
        spent: Secret?,
        from parent: LiveToken?,
        _ call: TokenCall,
        _ reply: TokenReply,
        _ duration: Duration,
        _ waiters: Int
    ) async -> End {
        var event = setup.event(isFirst ? .acquired : .renewed, generation: generation, trigger: call.trigger)
        let isRotated = setup.grant.rotatesRefreshToken && token.refreshToken != spent
        let accepted = StoredToken(
            generation: generation,
            token: token,
            previousRefreshToken: isRotated ? spent : record?.previousRefreshToken
        )
        record = accepted
        isUncertain = false
        await save()
        event.demand = call.demand
        event.httpStatus = reply.httpStatus
        event.expiresAt = token.expiresAt
        event.duration = duration
        event.waiters = waiters
        event.token = token.access
        if let parent, let name = setup.parent?.name {
            event.detail["parent"] = name
            event.detail["parent_generation"] = String(parent.generation)
        }
        setup.metrics.called(outcome: "ok", took: duration)
        setup.logger.info(
            "Token obtained",
            metadata: [
                "gateway.credential": "\(setup.name)", "gateway.generation": "\(generation)",
                "gateway.trigger": "\(call.trigger.rawValue)",
                "gateway.expires_at": "\(token.expiresAt?.rfc3339 ?? "unknown")",
            ]
        )
        return await commit(Uncommitted(fresh: fresh(accepted), event: event))
    }

    // MARK: Refusals

    private func isRefusal(_ failure: TokenFailure) -> Bool {
        switch failure.class {
        case .transient: false
        case .loginRequired: true
        case .terminal: failure.clearsToken || failure.problem.cause?.code == "invalid_grant"
        }
    }

    /// A sibling that shares the store may have rotated: its token is in the store then.
    private mutating func adoptFromStore() async -> StoredToken? {
        do throws(TokenStoreError) {
            guard let stored = try await setup.store.load(setup.key), stored.token != record?.token,
                stored.generation >= record?.generation ?? 0
            else { return nil }
            // What the store did not take is later than what it holds of the same generation.
            if saveIsDue != nil, stored.generation == record?.generation { return nil }
            return stored
        } catch {
            await report(error, while: "load", generation: record?.generation)
            return nil
        }
    }

    /// - Returns: nil when the adopted token is dead and has to be renewed first.
    private mutating func use(_ found: StoredToken, after generation: Int, _ call: TokenCall) async -> End? {
        var adopted = found
        // Late rejections of what we held must not hit the adopted one.
        adopted.generation = max(found.generation, generation + 1)
        record = adopted
        isUncertain = adopted.attempt != nil
        var event = setup.event(.adopted, generation: adopted.generation, trigger: call.trigger)
        event.expiresAt = adopted.token.expiresAt
        event.token = adopted.token.access
        let isLive = !adopted.isRejected && adopted.token.expiresAt.map { $0 > setup.clock.now().wall } ?? true
        guard isLive else {
            await setup.note(event)
            return nil
        }
        return await commit(Uncommitted(fresh: fresh(adopted), event: event))
    }

    /// The previous refresh token, when the authority may not have seen its successor confirmed.
    private func nextCandidate(after tried: [Secret]) -> TokenSet? {
        guard isUncertain, var token = record?.token, let previous = record?.previousRefreshToken,
            !tried.contains(previous)
        else { return nil }
        token.refreshToken = previous
        return token
    }

    private mutating func giveUp(_ failure: TokenFailure, _ call: TokenCall) async -> End {
        var failure = failure
        if isUncertain {
            var problem = failure.problem
            problem.detail =
                "The answer to the last renewal of \(setup.name) was lost, and the authority no longer accepts"
                + " the refresh token. A new login is needed."
            failure = TokenFailure(failure.class, problem: problem, clearsToken: failure.clearsToken)
        }
        // Said until somebody has logged in: that a login is needed follows from it.
        let wasUncertain = isUncertain
        await strikeJournal()
        isUncertain = wasUncertain
        return await refused(failure, call)
    }

    mutating func refused(_ failure: TokenFailure, _ call: TokenCall) async -> End {
        if failure.clearsToken { await withdraw() }
        if case .loginRequired = failure.class { await noteLogin(failure, call) }
        return .failed(failure)
    }

    private func noteLogin(_ failure: TokenFailure, _ call: TokenCall) async {
        var event = setup.event(.loginRequired, generation: record?.generation, trigger: call.trigger)
        event.demand = call.demand
        event.outcome = .failed
        event.errorCode = failure.problem.cause?.code ?? failure.problem.kind.rawValue
        await setup.note(event)
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
        setup.metrics.called(outcome: code, took: duration)
        setup.logger.warning(
            "Token could not be obtained",
            metadata: [
                "gateway.credential": "\(setup.name)", "gateway.error": "\(code)",
                "gateway.problem": "\(failure.problem.kind.rawValue)", "gateway.trigger": "\(call.trigger.rawValue)",
                "gateway.http_status": "\(reply?.status ?? 0)",
            ]
        )
        let name: TokenEvent.Name = isFirst ? .acquisitionFailed : .renewalFailed
        var event = setup.event(name, generation: record?.generation, trigger: call.trigger)
        event.demand = call.demand
        event.outcome = .failed
        event.httpStatus = reply?.httpStatus
        event.errorCode = code
        event.duration = duration
        event.waiters = waiters
        await setup.note(event)
    }
}
