import GatewayCore

/// What follows when the authority refuses the refresh token: another token is tried, or the credential needs a person.
extension TokenRenewer {
    /// A sibling that shares the store may have rotated: its token is in the store then.
    mutating func adoptFromStore() async -> StoredToken? {
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

    /// - Returns: nil when the adopted token is dead and has to be renewed first.
    mutating func use(_ found: StoredToken, after generation: Int, _ trigger: TokenEvent.Trigger) async -> End? {
        let (adopted, event) = adoption(of: found, after: generation, trigger)
        let isLive = !adopted.isRejected && adopted.token.expiresAt.map { $0 > context.clock.now().wall } ?? true
        guard isLive else {
            await context.note(event)
            return nil
        }
        return await commit(Uncommitted(fresh: fresh(adopted), event: event))
    }

    /// - Returns: The record, and the event that says so.
    mutating func adoption(
        of found: StoredToken,
        after generation: Int,
        _ trigger: TokenEvent.Trigger?
    ) -> (StoredToken, TokenEvent) {
        var adopted = found
        // Late rejections of what we held must not hit the adopted one.
        adopted.generation = max(found.generation, generation + 1)
        record = adopted
        saveIsDue = nil
        isUncertain = context.isUncertain(adopted)
        var event = context.event(.adopted, generation: adopted.generation, trigger: trigger)
        event.expiresAt = adopted.token.expiresAt
        event.token = adopted.token.access
        return (adopted, event)
    }

    mutating func giveUp(_ failure: TokenFailure, _ call: TokenCall) async -> End {
        var failure = failure
        if record?.isRestored == true {
            failure = failure.replacing(
                detail: context.restoredAndRefused,
                command: failure.problem.command
            )
        } else if isUncertain {
            let detail =
                "The answer to the last renewal of \(context.name) was lost, and the authority no longer accepts"
                + " the refresh token. A new login is needed."
            failure = failure.replacing(detail: detail, command: failure.problem.command)
        }
        // Said until somebody has logged in: that a login is needed follows from it.
        let wasUncertain = isUncertain
        await strikeJournal()
        isUncertain = wasUncertain
        return await refused(failure, call)
    }

    mutating func refused(_ failure: TokenFailure, _ call: TokenCall) async -> End {
        if failure.clearsToken { await withdraw(isOperators: false) }
        if case .loginRequired = failure.class { await noteLogin(failure, call) }
        return .failed(failure)
    }

    /// What the authority has refused is not sent again.
    mutating func dropRefreshToken(_ refused: Secret?) async {
        guard let refused, record?.token.refreshToken == refused else { return }
        record?.token.refreshToken = nil
        record?.token.refreshTokenExpiresAt = nil
        record?.token.refreshTokenObtainedAt = nil
        record?.attempt = nil
        isUncertain = false
        await save()
    }

    func noteLogin(_ failure: TokenFailure, _ call: TokenCall) async {
        var event = context.event(.loginRequired, generation: record?.generation, trigger: call.trigger)
        event.demand = call.demand
        event.outcome = .failed
        event.errorCode = failure.problem.cause?.code ?? failure.problem.kind.rawValue
        await context.note(event)
    }
}
