import GatewayEvents
import GatewayHTTP
import GatewayTokens
import Logging

/// Records the events of logins in the audit log.
struct LoginEvents {
    let audit: any AuditLog
    let onAuditFailure: AuditPlan.OnFailure
    let clock: any GatewayClock
    let logger: Logger
    /// The request of the client whose login is captured; nil for a login that an operator begins.
    var captured: CredentialRequest?

    /// - Returns: Why the login must not begin: its end could not be recorded either, and a person would have logged in for
    ///   nothing.
    func started(of keeper: TokenKeeper, by way: String) async -> GatewayProblem? {
        await refusal(recording: event(.loginStarted, of: keeper, ["by": way]))
    }

    /// - Returns: Why the login must not go on without the event.
    func refusal(recording event: TokenEvent) async -> GatewayProblem? {
        guard let error = await audit.refusal(recording: event, onAuditFailure) else { return nil }
        let name = event.credential ?? ""
        let detail = "A login for \(name) is refused now, because it cannot be recorded: \(error.reason)."
        return GatewayProblem(.auditUnavailable, detail)
    }

    func failed(of keeper: TokenKeeper, reason: String, code: String?, said: AuthorityError?) async {
        let members = said?.members() ?? [:]
        var metadata: Logger.Metadata = ["gateway.credential": "\(keeper.name)", "gateway.reason": "\(reason)"]
        for (name, value) in members { metadata["gateway.\(name)"] = "\(value)" }
        if let client = captured?.client { metadata["gateway.client"] = "\(client)" }
        logger.warning(captured == nil ? "Login failed" : "Captured login failed", metadata: metadata)
        var event = event(.loginFailed, of: keeper, members.merging(["reason": reason]) { $1 })
        if captured != nil { event.detail["by"] = "capture" }
        event.outcome = .failed
        event.errorCode = code ?? ProblemKind.loginFailed.rawValue
        event.httpStatus = said?.status
        _ = await audit.recordSoon(event)
    }

    func event(_ name: TokenEvent.Name, of keeper: TokenKeeper, _ detail: [String: String] = [:]) -> TokenEvent {
        TokenEvent(
            at: clock.now().wall,
            name: name,
            credential: keeper.name,
            strategy: keeper.strategy,
            trigger: captured == nil ? .operator : .demand,
            demand: captured,
            detail: detail
        )
    }
}
