/// A row of one of many logs.
package struct SharedAuditRow: Hashable, Sendable {
    /// The host of the gateway that wrote it; nil where the database names none.
    package let gateway: String?
    package let chain: String
    package let row: AuditRow

    /// ``AuditRow/json`` with the gateway in front.
    package var json: String {
        var line = JSONLine()
        line.add("gateway", gateway)
        line.add("chain", chain)
        row.add(to: &line)
        return line.text
    }
}
