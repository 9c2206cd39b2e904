import GatewayCore
import GatewayTokens
import Logging

/// Records the events of logins in the audit log.
struct LoginEvents {
    let audit: any AuditLog
    let onAuditFailure: AuditPlan.OnFailure
    let clock: any GatewayClock
    let logger: Logger

    /// - Returns: Why the login must not begin: its end could not be recorded either, and a person would have logged in for
    ///   nothing.
    func started(of keeper: TokenKeeper, by way: String) async -> GatewayProblem? {
        let event = event(.loginStarted, of: keeper, detail: ["by": way])
        guard let error = await record(event), onAuditFailure == .block else { return nil }
        let detail = "A login for \(keeper.name) is refused now, because it cannot be recorded: \(error.reason)."
        return GatewayProblem(.auditUnavailable, detail)
    }

    func failed(of keeper: TokenKeeper, reason: String, code: String?, said: AuthorityError?) async {
        let members = said?.members() ?? [:]
        logger.warning(
            "Login failed",
            metadata: ["gateway.credential": "\(keeper.name)", "gateway.reason": "\(reason)"]
                .merging(members.map { ("gateway.\($0)", "\($1)") }) { $1 }
        )
        var event = event(.loginFailed, of: keeper, detail: members.merging(["reason": reason]) { $1 })
        event.outcome = .failed
        event.errorCode = code ?? ProblemKind.loginFailed.rawValue
        event.httpStatus = said?.status
        await record(event)
    }

    private func event(_ name: TokenEvent.Name, of keeper: TokenKeeper, detail: [String: String]) -> TokenEvent {
        TokenEvent(
            at: clock.now().wall,
            name: name,
            credential: keeper.name,
            strategy: keeper.strategy,
            trigger: .operator,
            detail: detail
        )
    }

    @discardableResult
    private func record(_ event: TokenEvent) async -> AuditError? {
        do throws(AuditError) {
            try await audit.record(event)
            return nil
        } catch {
            logger.warning("Login event was lost", metadata: ["gateway.reason": "\(error.reason)"])
            return error
        }
    }
}

extension GatewayProblem {
    /// With the command that helps, for a person who reads it in a terminal or a browser.
    var words: String { command.map { "\(detail) Run: \($0)" } ?? detail }
}
