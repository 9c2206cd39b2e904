import GatewayCore
import GatewayFiles

/// A table of the local log that has a copy in a shared database.
struct ShippedTable {
    struct Column {
        let name: String
        let isNumber: Bool

        /// As both databases spell it: `trigger` is a word of SQL.
        var quoted: String { "\"\(name)\"" }
        var definition: String { "\(quoted) \(isNumber ? "bigint" : "text")" }
    }

    let name: String
    let columns: [Column]

    private init(_ name: String, _ columns: [String], numbers: Set<String>) {
        self.name = name
        self.columns = columns.map { Column(name: $0, isNumber: numbers.contains($0)) }
    }

    static let events = ShippedTable(
        "audit_event",
        AuditSchema.allColumns + ["client_request_id"],
        numbers: ["id", "generation", "http_status", "duration_ms", "waiters"]
    )
    static let checkpoints = ShippedTable(
        "audit_checkpoint",
        AuditSchema.checkpointColumns,
        numbers: ["id", "pruned_to_id"]
    )
    static let uses = ShippedTable(
        "audit_use",
        [
            "minute", "route", "client", "credential", "generation", "status_class", "requests", "bytes_received",
            "bytes_sent",
        ],
        numbers: ["generation", "status_class", "requests", "bytes_received", "bytes_sent"]
    )

    var list: String { columns.map(\.quoted).joined(separator: ", ") }
    var definitions: String { columns.map(\.definition).joined(separator: ", ") }

    /// A JSON object. NULL has no member.
    ///
    /// The gateway writes no NUL (``SafeText``), and PostgreSQL cannot store one. A row that somebody has put one into is
    /// shipped with `\u0000` as text, so it holds up nothing, and does not fit its hash there either.
    func json(of row: borrowing StatementRow) -> String {
        var members: [String] = []
        for (index, column) in columns.enumerated() {
            switch row.kind(at: index) {
            case .integer where column.isNumber: members.append("\"\(column.name)\":\(row.integer(at: index))")
            case .integer: members.append("\"\(column.name)\":\"\(row.integer(at: index))\"")
            case .text where !column.isNumber:
                let text = row.text(at: index) ?? ""
                members.append("\"\(column.name)\":" + JSONString.quoted(Self.withoutNUL(text)))
            default: break
            }
        }
        return "{\(members.joined(separator: ","))}"
    }

    static func withoutNUL(_ text: String) -> String {
        guard text.utf8.contains(0) else { return text }
        return text.split(separator: "\0", omittingEmptySubsequences: false).joined(separator: "\\u0000")
    }
}
