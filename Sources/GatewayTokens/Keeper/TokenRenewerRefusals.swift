import GatewayEvents
import GatewayHTTP

/// What follows when the authority refuses the refresh token: another token is tried, or the credential needs a person.
extension TokenRenewer {
    /// - Parameter steps: What was tried.
    mutating func giveUp(_ failure: TokenFailure, _ call: TokenCall, _ steps: RenewalSteps) async -> End {
        var failure = failure
        if record?.isRestored == true {
            failure = failure.replacing(
                detail: context.restoredAndRefused,
                command: failure.problem.command
            )
        } else if isUncertain {
            let detail =
                "The answer to the last renewal of \(context.name) was lost or could not be used, and the authority no longer"
                + " accepts the refresh token. A new login is needed."
            failure = failure.replacing(detail: detail, command: failure.problem.command)
        }
        // Said until somebody has logged in: that a login is needed follows from it.
        let wasUncertain = isUncertain
        let stored = record?.token.refreshToken
        let isNoted = await noteRefusal(of: steps.hasRefused(stored) ? stored : nil, by: failure)
        if !isNoted { await strikeJournal() }
        isUncertain = wasUncertain
        return await refused(failure, call)
    }

    /// Stores that the authority has refused the refresh token: no other gateway and no later start sends it by itself.
    ///
    /// - Returns: Whether that is so. The journal is struck then.
    mutating func noteRefusal(of sent: Secret?, by failure: TokenFailure) async -> Bool {
        guard let stored = record?.token.refreshToken, stored == sent,
            let refusal = RefreshTokenRefusal(of: stored, by: failure, isRotationUncertain: isUncertain)
        else { return false }
        amendRecord { ($0.refusal, $0.attempt) = (refusal, nil) }
        isUncertain = context.isUncertain(record)
        await save(endingLease: true)
        return true
    }

    mutating func refused(_ failure: TokenFailure, _ call: TokenCall) async -> End {
        if failure.clearsToken {
            let wasUncertain = isUncertain
            await withdraw(isOperators: false)
            isUncertain = wasUncertain
        }
        // One that is only likely is tried again, and the first alone is news: see ``TokenLifecycle/Failed/isEscalated``.
        if case .loginRequired = failure.class { await noteLogin(failure, call) }
        return .failed(failure)
    }

    /// What the authority has refused is not sent again.
    mutating func dropRefreshToken(_ refused: Secret?) async {
        guard let refused, record?.token.refreshToken == refused else { return }
        amendRecord { record in
            record.token.refreshToken = nil
            record.token.refreshTokenExpiresAt = nil
            record.token.refreshTokenObtainedAt = nil
            record.isUnproven = false
            record.attempt = nil
            record.refusal = nil
        }
        isUncertain = false
        await save()
    }

    /// - Parameter call: nil where the record says so, and no call was made.
    func noteLogin(_ failure: TokenFailure, _ call: TokenCall? = nil) async {
        var event = context.event(.loginRequired, generation: record?.generation, trigger: call?.trigger)
        event.demand = call?.demand
        event.outcome = .failed
        event.errorCode = failure.problem.cause?.code ?? failure.problem.kind.rawValue
        await context.note(event)
    }
}
