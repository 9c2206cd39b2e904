import GatewayCore

/// `status` as people read it.
enum StatusText {
    static func whole(_ report: StatusReport, _ style: TextStyle) -> String {
        let isReady = report.readiness.isReady
        var text = style.paint(isReady ? "ready" : "not ready", isReady ? .green : .red) + "\n"
        text += report.readiness.reasons.map { "  \(LogText.clean($0))\n" }.joined()
        if !report.tokens.isEmpty { text += "\n" + TokenText.table(of: report.tokens, style) }
        if !report.expirations.isEmpty { text += "\n" + table(of: report.expirations, style) }
        if !report.routes.isEmpty { text += "\n" + table(of: report.routes, style) }
        return text
    }

    /// One fact a line for each credential, then what ends and the routes.
    static func part(_ report: StatusReport, _ style: TextStyle) -> String {
        var parts = report.tokens.map { token in
            let routes = report.routes.filter { $0.credential == token.credential }.map(\.name)
            return TokenText.list(of: token, routes: routes)
        }
        if !report.expirations.isEmpty { parts.append(table(of: report.expirations, style)) }
        if !report.routes.isEmpty { parts.append(table(of: report.routes, style)) }
        return parts.joined(separator: "\n")
    }

    static func table(of expirations: [Expiration], _ style: TextStyle) -> String {
        var table = TextTable("ENDS IN", "WHAT", "OF", "AT", "WHAT TO DO")
        for expiration in expirations {
            let remaining = expiration.remainingSeconds
            let cells = [
                remaining > 0 ? ConfigUnits.countdown(remaining) : "ended",
                expiration.kind.rawValue,
                expiration.of,
                expiration.endsAt,
                expiration.isSoon ? expiration.action : "",
            ]
            table.add(cells, color: remaining > 0 ? (expiration.isSoon ? .yellow : nil) : .red, column: 0)
        }
        return table.text(style)
    }

    static func table(of routes: [RouteStatus], _ style: TextStyle) -> String {
        var table = TextTable("ROUTE", "PATH", "UPSTREAM", "CREDENTIAL", "NEEDS")
        for route in routes {
            let cells = [route.name, route.path, route.upstream, route.credential ?? "none", route.needs ?? ""]
            table.add(cells, color: .yellow, column: 4)
        }
        return table.text(style)
    }
}
