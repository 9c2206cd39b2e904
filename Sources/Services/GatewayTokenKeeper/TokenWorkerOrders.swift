import GatewayCore
import Logging

/// What operators order: forgetting, taking and revoking a token.
extension TokenWorker {
    /// - Returns: Why it may come back with the next start.
    mutating func clear(after generation: Int) async -> GatewayProblem? {
        let problem = await forget()
        isUncertain = false
        let event = setup.event(.cleared, generation: generation == 0 ? nil : generation, trigger: .operator)
        await setup.note(event)
        return problem
    }

    /// The store and the configuration are looked at again when a token is needed next.
    private mutating func forget() async -> GatewayProblem? {
        let generation = record?.generation
        record = nil
        uncommitted = nil
        saveIsDue = nil
        hasOpened = false
        do throws(TokenStoreError) {
            try await setup.store.remove(setup.key)
            isForgotten = false
            return nil
        } catch {
            await report(error, while: "remove", generation: generation)
            isForgotten = true
            let detail =
                "The token of \(setup.name) is forgotten until the gateway restarts, but the store did not remove it;"
                + " the log says why. Repeat this when the store works again."
            return GatewayProblem(.tokenTemporarilyUnavailable, detail)
        }
    }

    /// - Parameter name: What brought the token: an import or a login.
    mutating func take(
        _ token: TokenSet,
        as name: TokenEvent.Name,
        generation: Int
    ) async -> Result<FreshToken, TokenFailure> {
        let isIncomplete = token.access.isEmpty
        let record = StoredToken(generation: generation, token: token, isRejected: isIncomplete)
        var event = setup.event(name, generation: generation, trigger: .operator)
        event.expiresAt = token.expiresAt
        event.token = isIncomplete ? nil : token.access
        if let failure = await setup.commit(event) { return .failure(failure) }
        self.record = record
        uncommitted = nil
        hasOpened = true
        isForgotten = false
        isUncertain = false
        await save()
        return .success(fresh(record))
    }

    /// Puts back what there was before a token was taken that turned out to be no good.
    mutating func restore(_ earlier: StoredToken?) async {
        isUncertain = earlier?.attempt != nil
        guard let earlier else {
            _ = await forget()
            hasOpened = true
            return
        }
        record = earlier
        await save()
    }

    // MARK: Revocation

    enum Revocation {
        case nothing
        case impossible(GatewayProblem)
        case request(TokenRequest)
    }

    var revocation: Revocation {
        guard let record, !record.isRevoked else { return .nothing }
        if let request = setup.grant.revocation(of: record.token) { return .request(request) }
        let detail = "The token of \(setup.name) cannot be revoked. \(setup.grant.revocationObstacle)"
        let problem = GatewayProblem(
            .requestRefused,
            "\(detail) To forget it here without telling the authority, clear it.",
            command: "authgateway token clear \(setup.name)"
        )
        return .impossible(problem)
    }

    /// - Returns: Why the authority may still accept the token; and whether it was forgotten here all the same.
    mutating func revoke(by request: TokenRequest) async -> (problem: GatewayProblem?, isForgotten: Bool) {
        let start = setup.clock.now().monotonic
        let answer = await setup.endpoint.send(request, deadline: TokenKeeper.callDeadline)
        let verdict = RevocationVerdict(answer, credential: setup.name)
        var event = setup.event(
            verdict.problem == nil ? .revoked : .revocationFailed,
            generation: record?.generation,
            trigger: .operator
        )
        event.outcome = verdict.problem == nil ? .ok : .failed
        event.httpStatus = verdict.httpStatus
        event.errorCode = verdict.code
        event.duration = setup.clock.now().monotonic - start
        event.token = record?.token.access
        await setup.note(event)
        log(verdict)
        guard verdict.problem == nil || !setup.grant.keepsTokenUntilRevoked else { return (verdict.problem, false) }
        if verdict.problem != nil {
            await setup.note(setup.event(.cleared, generation: record?.generation, trigger: .operator))
        }
        await withdraw()
        isUncertain = false
        return (verdict.problem, true)
    }

    /// Forgets a token that is dead for good. That of the configuration must not be taken up again, so its place in the
    /// store is kept.
    mutating func withdraw() async {
        let now = setup.clock.now()
        guard setup.grant.seed(at: now) != nil, let generation = record?.generation else {
            _ = await forget()
            return
        }
        record = .revoked(generation: generation, at: now.wall)
        uncommitted = nil
        hasOpened = true
        await save()
    }

    private func log(_ verdict: RevocationVerdict) {
        let metadata: Logger.Metadata = [
            "gateway.credential": "\(setup.name)", "gateway.http_status": "\(verdict.httpStatus ?? 0)",
            "gateway.error": "\(verdict.code ?? "none")",
        ]
        if verdict.problem == nil {
            setup.logger.notice("Token revoked", metadata: metadata)
        } else {
            setup.logger.error("Token could not be revoked", metadata: metadata)
        }
    }
}

/// What an authority's answer to a revocation means (RFC 7009 §2.2).
struct RevocationVerdict {
    /// nil when the token is worth nothing any more.
    let problem: GatewayProblem?
    let httpStatus: Int?
    let code: String?

    init(_ answer: Result<TokenReply, TokenTransportFailure>, credential: String) {
        switch answer {
        case .failure(let failure):
            let explained = TokenFailure(explaining: failure, credential: credential).problem
            let detail = explained.detail.replacing("token endpoint", with: "revocation endpoint")
            problem = GatewayProblem(explained.kind, detail, hopError: explained.hopError)
            httpStatus = nil
            code = failure.reason.rawValue
        case .success(let reply):
            let named = OAuthErrorCode.allowListed(JSONValue(reply.body)?["error"]?.string)
            httpStatus = reply.status
            code = named
            // Some say that they do not know the token, which is what was wanted.
            let isUnknown = reply.status == 400 && (named == "invalid_token" || named == "invalid_grant")
            if (200..<300).contains(reply.status) || isUnknown {
                problem = nil
            } else {
                problem = Self.refusal(reply.status, named, credential)
            }
        }
    }

    private static func refusal(_ status: Int, _ code: String?, _ credential: String) -> GatewayProblem {
        let cause = GatewayProblem.Cause(code: code, httpStatus: status)
        let answer = (["status \(status)"] + [code].compactMap { $0 }).joined(separator: ", ")
        guard status != 429, status < 500 else {
            let detail = "The authority of \(credential) does not revoke tokens at the moment (\(answer))."
            return GatewayProblem(.tokenTemporarilyUnavailable, detail, cause: cause)
        }
        let detail = "The authority of \(credential) refused to revoke the token (\(answer))."
        return GatewayProblem(.credentialMisconfigured, detail, cause: cause)
    }
}
