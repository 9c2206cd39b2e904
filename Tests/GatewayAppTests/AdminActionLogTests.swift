import GatewayEvents
import GatewayTesting
import Logging
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("What operators ask for", .timeLimit(.minutes(1)))
struct AdminActionLogTests {
    @Test(arguments: [-1, 0, 1])
    func ofALongPathTheBeginningIsRecorded(_ more: Int) async {
        let audit = RecordingAuditLog()
        let log = AdminActionLog(audit: audit, onFailure: .block, clock: ManualClock(), logger: Logger(label: "test"))
        let most = AdminActionLog.maximumPath
        let path = "/api/" + String(repeating: "a", count: most + more - 5)
        let action = AdminAction(user: "ada", role: .viewer, method: "GET", path: path, withdraws: false)
        #expect(await log.record(action) == nil)
        #expect(audit.last(.operatorRequest)?.detail["path"]?.count == min(most, most + more))
    }
}
