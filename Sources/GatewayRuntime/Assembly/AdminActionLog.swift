import GatewayAdmin
import GatewayCore
import Logging

/// Records who asks for what on the admin listener, before it is done.
struct AdminActionLog: Sendable {
    static let maximumPath = 256
    /// How long what takes a right away waits for its record.
    private static let patience: Duration = .milliseconds(200)

    let audit: any AuditLog
    let onFailure: AuditPlan.OnFailure
    let clock: any GatewayClock
    let logger: Logger

    /// What may take a right away is done at once, and recorded as soon as the audit log works.
    ///
    /// - Returns: Why it must not be done: nothing else is done that is not recorded, unless the configuration says so.
    func record(_ action: AdminAction) async -> GatewayProblem? {
        let path = LogText.clean(String(action.path.prefix(Self.maximumPath)))
        let detail = ["user": action.user, "role": action.role.rawValue, "method": action.method, "path": path]
        var event = TokenEvent(at: clock.now().wall, name: .operatorRequest, trigger: .operator)
        event.detail = detail
        guard !action.withdraws else {
            await recordSoon(event, of: action.user)
            return nil
        }
        do throws(AuditError) {
            try await audit.record(event)
            return nil
        } catch {
            logger.error("Audit event not written", metadata: ["event": "operator_request", "user": "\(action.user)"])
            guard onFailure == .block else { return nil }
            let text = "The audit log cannot be written: \(error.reason). Nothing was done."
            return GatewayProblem(.auditUnavailable, text, retryAfter: .seconds(5))
        }
    }

    private func recordSoon(_ event: TokenEvent, of user: String) async {
        let end = await Deadline.value(within: Self.patience) { [audit] in await audit.recordSoon(event)?.reason }
        guard let reason = end ?? "it did not take the event in time" else { return }
        logger.warning(
            "Audit event not written yet",
            metadata: ["event": "operator_request", "user": "\(user)", "reason": "\(LogText.clean(reason))"]
        )
    }
}
