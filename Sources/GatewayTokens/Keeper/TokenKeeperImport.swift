import GatewayEvents
import GatewayHTTP

/// The command `import`: taking a token that an operator brings, and trying it where it can be renewed.
extension TokenKeeper {
    func take(_ imported: ImportedToken, _ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        let now = context.clock.now()
        guard imported.access != nil || context.grant.rotatesRefreshToken else {
            let detail = "access_token is missing: \(name) cannot get one for a refresh token."
            return .failure(GatewayProblem(.requestRefused, detail))
        }
        let token = context.grant.completing(TokenSet(imported, at: now.wall))
        if let end = token.expiresAt, end <= now.wall {
            return .failure(GatewayProblem(.requestRefused, "The token has expired already, at \(end.rfc3339)."))
        }
        // A record that cannot be read is replaced.
        try? await renewer.loadRecord(highestGeneration: look { $0.generation })
        // Another gateway may have spent the refresh token of the record that is known here.
        await readNews(&renewer)
        let earlier = renewer.earlier
        let fresh: FreshToken
        switch await renewer.take(token, as: .imported, after: look { $0.generation }) {
        case .failure(let failure): return .failure(failure.problem)
        case .success(let taken): fresh = taken
        }
        guard context.grant.rotatesRefreshToken, token.refreshToken != nil else {
            install(fresh)
            return .success(note(untried: nil))
        }
        return await refreshImported(fresh, replacing: earlier, &renewer)
    }

    /// Refreshes an imported token before it is used.
    private func refreshImported(
        _ imported: FreshToken,
        replacing earlier: TokenRenewer.Earlier,
        _ renewer: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        guard let call = decide({ $0.beginImport(generation: imported.generation) }) else {
            install(imported)
            return .success(note(untried: "It was not tried because the credential is locked."))
        }
        switch await perform(call, by: &renewer) {
        case .obtained(let refreshed):
            use(refreshed, obtainedBy: call)
            return .success("\(name) has a new token: what was imported was renewed at once, and works.")
        case .nothing:
            install(imported)
            return .success(note(untried: nil))
        case .held:
            install(imported)
            return .success(note(untried: "Another gateway tries it now."))
        case .withdrawn:
            leave(&renewer)
            let detail = "What was imported for \(name) was taken away or replaced at another gateway at the same time."
            return .failure(GatewayProblem(.tokenTemporarilyUnavailable, detail))
        case .failed(let refusal):
            return await importFailed(refusal, of: imported, replacing: earlier, by: call, &renewer)
        }
    }

    private func importFailed(
        _ refusal: TokenFailure,
        of imported: FreshToken,
        replacing earlier: TokenRenewer.Earlier,
        by call: TokenCall,
        _ renewer: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        // A token of another gateway that was adopted during the call stays.
        let isRestored = renewer.record.map { $0.generation == imported.generation } ?? true
        let left = isRestored ? earlier.record : renewer.record
        let kept = left.flatMap { $0.isRevoked ? nil : renewer.fresh($0) }
        // With an earlier token no login is needed. A refused import is not tried again by itself.
        let failure = kept == nil && refusal.class.asksForLogin ? context.advised(refusal) : refusal
        let (now, jitter) = (context.clock.now(), jitter())
        let outcome = decide {
            $0.importFailed(failure, of: imported, replacing: kept, by: call, at: now, jitter: jitter)
        }
        switch outcome {
        case .postponed(let ended):
            release(ended)
            showUncertainty(of: renewer)
            return .success(note(untried: "It could not be tried yet: \(failure.problem.detail)"))
        case .refused(let ended):
            release(ended)
            if isRestored { await renewer.restore(earlier, inPlaceOf: imported.token) }
            if left?.isRevoked ?? true {
                leave(&renewer)
            } else {
                showUncertainty(of: renewer)
                await followRefusal(renewer)
            }
            await noteRefusedImport(imported, failure)
        case .ignored:
            break
        }
        var problem = failure.operatorProblem
        let addition = kept == nil ? "" : ", and the earlier token is kept"
        problem.detail = "Nothing was imported\(addition). \(problem.detail)"
        if failure.mayPass {
            problem.detail += " The authority may have seen the imported refresh token; import it again, or a new one."
        }
        return .failure(problem)
    }

    /// The audit log has said that the token was imported.
    private func noteRefusedImport(_ imported: FreshToken, _ failure: TokenFailure) async {
        var event = context.event(.imported, generation: imported.generation, trigger: .operator)
        event.outcome = .failed
        event.errorCode = failure.problem.cause?.code
        await context.note(event)
    }

    private func note(untried reason: String?) -> String {
        ["\(name) uses the imported token.", reason].compactMap(\.self).joined(separator: " ")
    }

    func install(_ fresh: FreshToken) {
        let (now, jitter) = (context.clock.now(), jitter())
        let outcome = decide { $0.import(fresh, at: now, jitter: jitter) }
        rejections?.replaced(by: fresh.generation, isOwn: false, at: now.monotonic)
        release(outcome)
    }
}

extension TokenSet {
    /// Without an access token it is one that cannot be used before it was renewed.
    fileprivate init(_ imported: ImportedToken, at now: UnixTime) {
        self.init(
            access: imported.access ?? Secret(""),
            refreshToken: imported.refreshToken,
            obtainedAt: now,
            expiresAt: imported.expiresAt ?? imported.lifetime.map { now + $0 }
        )
    }
}
