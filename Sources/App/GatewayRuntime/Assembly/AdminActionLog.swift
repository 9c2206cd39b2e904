import GatewayAdmin
import GatewayCore
import Logging

/// Records who asks for what on the admin listener, before it is done.
struct AdminActionLog: Sendable {
    private static let maximumPath = 256

    let audit: any AuditLog
    let onFailure: AuditPlan.OnFailure
    let clock: any GatewayClock
    let logger: Logger

    /// - Returns: Why it must not be done: nothing is done that is not recorded, unless the configuration says so.
    func record(_ action: AdminAction) async -> GatewayProblem? {
        let path = LogText.clean(String(action.path.prefix(Self.maximumPath)))
        let detail = ["user": action.user, "role": action.role.rawValue, "method": action.method, "path": path]
        var event = TokenEvent(at: clock.now().wall, name: .operatorRequest, trigger: .operator)
        event.detail = detail
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
}
