import GRDB
import GatewayCore

/// Turns an event into the columns of its row. What clients and authorities had a say in is made harmless here, so that
/// every reader of the file is safe, the `sqlite3` shell included.
struct AuditEventRow {
    let keys: AuditKeys
    let instance: String

    /// The columns that the chain covers, in the order of the table.
    func columns(of event: TokenEvent, id: Int64) -> [DatabaseValue] {
        [
            id.databaseValue,
            event.at.rfc3339.databaseValue,
            event.name.rawValue.databaseValue,
            text(event.credential),
            text(event.strategy),
            text(event.subject),
            number(event.generation),
            text(event.trigger?.rawValue),
            text(event.demand?.route),
            text(event.demand?.client),
            text(event.demand?.requestID),
            event.outcome.rawValue.databaseValue,
            number(event.httpStatus),
            text(event.errorCode),
            text(event.expiresAt?.rfc3339),
            event.duration.map(\.wholeMilliseconds)?.databaseValue ?? .null,
            number(event.waiters),
            text(event.token?.withValue { keys.fingerprint(of: $0) }),
            SafeText.singleLine(instance).databaseValue,
            SafeText.json(detail(of: event)).databaseValue,
        ]
    }

    /// The client's own id of the request is read from here (``AuditSchema``), so that the chain covers it.
    private func detail(of event: TokenEvent) -> [String: String] {
        guard let id = event.demand?.clientRequestID else { return event.detail }
        return event.detail.merging(["client_request_id": id]) { $1 }
    }

    private func text(_ text: String?) -> DatabaseValue { text.map { SafeText.singleLine($0) }?.databaseValue ?? .null }

    private func number(_ number: Int?) -> DatabaseValue { number?.databaseValue ?? .null }
}
