import GatewayCore

/// What follows when the authority refuses the refresh token: another token is tried, or the credential needs a person.
extension TokenRenewer {
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
        if failure.clearsToken {
            let wasUncertain = isUncertain
            await withdraw(isOperators: false)
            isUncertain = wasUncertain
        }
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
            record.attempt = nil
        }
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
