import GatewayHTTP

/// Commands that end with the token forgotten: `clear` and `revoke`.
extension TokenKeeper {
    func clear(_ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        decide { $0.clear() }
        let problem = await renewer.clear(after: look { $0.generation })
        leave(&renewer)
        if let problem { return .failure(problem) }
        return .success("\(name) is cleared: its token is forgotten here, and the authority was not told. \(sequel)")
    }

    /// Says at once when only a person can go on.
    func leave(_ renewer: inout TokenRenewer) {
        let isSeeded = renewer.record == nil && context.grant.seed(at: context.clock.now()) != nil
        guard !isSeeded, let failure = renewer.obstacle.map(context.advised) else { return decide { $0.clear() } }
        for waiter in decide({ $0.clear(leaving: failure) }) { waiter(.failure(failure.problem)) }
    }

    /// What follows when there is no token any more.
    private var sequel: String {
        let (isLocked, failure) = look { ($0.isLocked, $0.lastFailure) }
        if isLocked { return "It stays locked." }
        return failure.map(\.problem.detail) ?? "The next request gets a new one."
    }

    func revoke(_ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        do throws(TokenStoreError) {
            try await renewer.loadRecord(highestGeneration: look { $0.generation })
        } catch {
            return .failure(renewer.unreadable(error).problem)
        }
        await readNews(&renewer)
        switch renewer.revocation {
        case .nothing:
            dropDescendantsForOperator()
            return .success("\(name) holds no token: there is nothing to revoke.")
        case .impossible(let problem): return .failure(problem)
        case .starts(let starts):
            decide { $0.suspend() }
            let (problem, isForgotten) = await renewer.revoke(starts)
            if isForgotten {
                leave(&renewer)
                dropDescendantsForOperator()
            } else {
                resume()
            }
            let told = isForgotten ? "The tokens are forgotten here all the same." : "The token is kept and still used."
            guard var problem else { return .success("\(name) is revoked at the authority and forgotten. \(sequel)") }
            problem.detail += " \(told)"
            problem.hasTakenAway = isForgotten
            return .failure(problem)
        }
    }

    func resume() {
        release(decide { $0.resume(at: context.clock.now().monotonic) })
    }
}
