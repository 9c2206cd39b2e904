import GatewayEvents
import GatewayHTTP
import Logging

/// What operators command: forgetting, taking and revoking a token.
extension TokenRenewer {
    /// - Returns: Why it may come back with the next start.
    mutating func clear(after generation: Int) async -> GatewayProblem? {
        let problem = await forget(isOperators: true)
        let event = context.event(.cleared, generation: generation == 0 ? nil : generation, trigger: .operator)
        unrecorded = await context.note(event)
        return problem
    }

    /// The store and the configuration are looked at again when a token is needed next.
    ///
    /// - Parameter isOperators: It is removed from the store whatever that holds.
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
    ///   - highest: The highest generation there has been.
    mutating func take(
        _ token: TokenSet,
        as name: TokenEvent.Name,
        after highest: Int
    ) async -> Result<FreshToken, TokenFailure> {
        let generation = nextGeneration(after: highest)
        let isIncomplete = token.access.isEmpty
        let record =
            isIncomplete && name == .loginCompleted
            ? recordOfLogin(with: token, as: generation)
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

    /// A login whose answer brought nothing that can be used but a refresh token, stored as after such an answer to a refresh:
    /// beside the earlier refresh token, which is sent if the new one is refused. An earlier token is used until then.
    private func recordOfLogin(with token: TokenSet, as generation: Int) -> StoredToken {
        let earlier = record.flatMap { $0.isRevoked ? nil : $0 }
        var kept = earlier ?? StoredToken(generation: generation, token: token, isRejected: true)
        kept.generation = generation
        kept.token.refreshToken = token.refreshToken
        kept.token.refreshTokenExpiresAt = token.refreshTokenExpiresAt
        kept.token.refreshTokenObtainedAt = token.obtainedAt
        // One that was refused, or that may have been spent since a backup, is not sent by itself.
        let isSent = earlier.map { $0.knownRefusal == nil && !$0.isRestored } ?? false
        let proven = earlier.flatMap { $0.isUnproven ? $0.previousRefreshToken : $0.token.refreshToken }
        kept.previousRefreshToken = isSent ? proven : nil
        kept.isUnproven = true
        kept.attempt = newAttempt(of: generation)
        kept.isRestored = false
        kept.refusal = nil
        return kept
    }

    /// The record before a token is taken that may turn out to be no good.
    struct Earlier {
        let record: StoredToken?
        /// It came from an operator, and the store has not taken it.
        let isOperatorsWrite: Bool
    }

    var earlier: Earlier { Earlier(record: record, isOperatorsWrite: pendingWrite.isOperators) }

    /// Puts back what there was before `refused` was taken. What somebody else has written since then stays.
    mutating func restore(_ earlier: Earlier, inPlaceOf refused: TokenSet) async {
        // An import that the store has not taken has replaced nothing there.
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
        guard let record, !record.isRevoked else { return .nothing }
        var tokens = [record.token]
        if record.isUnproven, let proven = record.previousRefreshToken, proven != record.token.refreshToken {
            var earlier = record.token
            earlier.refreshToken = proven
            tokens.insert(earlier, at: 0)
        }
        var starts: [RevocationStart] = []
        for token in tokens {
            let attempt = context.attempt(holding: token)
            switch context.grant.revocation(in: attempt) {
            // Some grants revoke the access token, and both refresh tokens are kept beside the same one.
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
            "The token of \(context.name) cannot be revoked. \(reason) To forget it here without telling the authority,"
                + " clear it.",
            command: GatewayCommand.line("token", "clear", context.name)
        )
    }

    /// - Returns: Why the authority may still accept a token; and whether it was forgotten here all the same.
    mutating func revoke(_ starts: [RevocationStart]) async -> (problem: GatewayProblem?, isForgotten: Bool) {
        let begun = context.clock.now().monotonic
        var end = RevocationEnd()
        for start in starts {
            let next = await takeRevocation(start, since: begun)
            if end.problem == nil { end = next }
            // A token that is kept is revoked again later, with all its steps.
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

    /// What became of a revocation.
    private struct RevocationEnd {
        /// nil when the token is worth nothing any more.
        var problem: GatewayProblem?
        var httpStatus: Int?
        var code: String?
        /// See ``AuthorityError/members(clockSkew:)``.
        var said: [String: String] = [:]
    }

    /// Takes every step of the revocation of one token.
    ///
    /// - Parameter begun: When that of the first token began: all of them share one deadline.
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

    /// Forgets a token that is dead for good. That of the configuration must not be taken up again, so its place in the
    /// store is kept.
    ///
    /// - Parameter isOperators: What the store holds by now does not matter.
    mutating func withdraw(isOperators: Bool) async {
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
