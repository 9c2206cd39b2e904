import GatewayAudit
import GatewayCore
import GatewayTokenStores

extension Storage {
    /// Records that the state is about to be copied. With `audit.on_failure: block` nothing is copied without it.
    func noteBackup(
        includesKeys: Bool,
        onFailure: AuditPlan.OnFailure,
        at now: UnixTime
    ) async -> Result<BackupNote, GatewayProblem> {
        var event = TokenEvent(at: now, name: .stateBackedUp, trigger: .operator)
        event.detail = ["keys": includesKeys ? "included" : "left out"]
        do throws(AuditError) {
            try await recorder.record(event)
        } catch {
            guard onFailure != .block else {
                let detail = "Nothing was copied: the event cannot be recorded: \(error.reason)."
                return .failure(GatewayProblem(.auditUnavailable, detail))
            }
        }
        return .success(BackupNote(instance: key.instanceName))
    }
}
