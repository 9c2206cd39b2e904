package import GatewayEvents
import Synchronization

/// Counts an event as recorded only when the shared database has it, too (`audit.store: postgres`).
///
/// The local log has each event first, so that nothing is lost, and what is not confirmed in time is shipped later.
package final class ConfirmedAuditLog: AuditLog {
    private let log: SQLiteAuditLog
    private let shipper: AuditShipper
    /// Events in the local log whose authors were told that they are not recorded. They may bring them again.
    private let late = Mutex<[(event: TokenEvent, row: Int64)]>([])

    package init(_ log: SQLiteAuditLog, shipper: AuditShipper) {
        self.log = log
        self.shipper = shipper
    }

    package func record(_ event: TokenEvent) async throws(AuditError) {
        let row: Int64
        if let known = takeLate(event) {
            row = known
        } else {
            try await log.record(event)
            // That of the event, or a later one.
            row = log.lastRow
        }
        guard let error = await shipper.confirm(row, within: log.options.recordLimit) else { return }
        keepLate(event, row)
        throw error
    }

    package func recordSoon(_ event: TokenEvent) async -> AuditError? {
        if let error = await log.recordSoon(event) { return error }
        return await shipper.confirm(log.lastRow, within: log.options.withdrawalLimit)
    }

    package func count(_ use: TokenUse) { log.count(use) }

    package func keep(_ requests: [RequestUse]) -> Int { log.keep(requests) }

    private func takeLate(_ event: TokenEvent) -> Int64? {
        late.withLock { late in
            late.firstIndex { $0.event == event }.map { late.remove(at: $0).row }
        }
    }

    private func keepLate(_ event: TokenEvent, _ row: Int64) {
        late.withLock { late in
            late.append((event, row))
            late.removeFirst(max(0, late.count - EventQueue.memoryLimit))
        }
    }
}
