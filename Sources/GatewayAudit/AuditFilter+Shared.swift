import GatewayCore
import GatewayFiles

extension AuditFilter {
    /// The condition for `authgateway.audit_event`. The rows of a request are looked at once more: see ``mayConcern(_:_:)``.
    var sharedTerms: SharedTerms {
        var terms = SharedTerms()
        if let credential {
            terms.add("(credential = ? OR starts_with(credential, ?))", [.text(credential), .text(credential + "[")])
        }
        if let route { terms.add("route = ?", [.text(route)]) }
        if let client { terms.add("client = ?", [.text(client)]) }
        if let event { terms.add("event = ?", [.text(event.rawValue)]) }
        if let request { Self.mayConcern(request, &terms) }
        if let since { terms.add("at >= ?", [.text(since.rfc3339)]) }
        if let until { terms.add("at < ?", [.text(until.rfc3339)]) }
        if failedOnly { terms.add("outcome = ?", [.text(TokenEvent.Outcome.failed.rawValue)]) }
        if let after { terms.add("id > ?", [.integer(after)]) }
        return terms
    }

    /// All rows that ``AuditRow/concerns(request:)``, and maybe some more: a detail that was changed is no JSON, and PostgreSQL ends
    /// a query that reads it as such.
    private static func mayConcern(_ id: String, _ terms: inout SharedTerms) {
        let inDetail = String(SafeText.json(id).dropFirst().dropLast())
        terms.add(
            "(request_id = ? OR client_request_id = ? OR strpos(detail, ?) > 0)",
            [.text(id), .text(id), .text(inDetail)]
        )
    }

    /// Whether a row that fits ``sharedTerms`` is meant.
    func isMeant(_ row: AuditRow) -> Bool { request.map { row.concerns(request: $0) } ?? true }
}
