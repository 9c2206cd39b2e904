import GatewayCore

/// `status` as people read it.
enum StatusText {
    static func whole(_ report: StatusReport, _ style: TextStyle) -> String {
        var text = style.paint(report.readiness.text, color(of: report.readiness.state)) + "\n"
        text += report.readiness.reasons.map { "  \(LogText.clean($0))\n" }.joined()
        if !report.tokens.isEmpty { text += "\n" + TokenText.table(of: report.tokens, style) }
        if !report.expirations.isEmpty { text += "\n" + table(of: report.expirations, style) }
        if !report.routes.isEmpty { text += "\n" + table(of: report.routes, style) + failures(of: report.routes) }
        text += engines(of: report.routes, style)
        let rotated = report.clientTokens.filter { $0.number > 1 }.map(\.client)
        let tokens = report.clientTokens.filter { rotated.contains($0.client) }
        if !tokens.isEmpty { text += "\n" + table(of: tokens, style) }
        return text
    }

    /// Which credentials leave the gateway for other proxies.
    private static func engines(of routes: [RouteStatus], _ style: TextStyle) -> String {
        var handed: [String: [String]] = [:]
        for route in routes {
            for engine in route.authz ?? [] { handed[engine, default: []].append(route.name) }
        }
        guard !handed.isEmpty else { return "" }
        var table = TextTable("ENGINE", "IS HANDED THE CREDENTIALS OF")
        for (engine, routes) in handed.sorted(by: { $0.key < $1.key }) {
            table.add(engine, routes.joined(separator: ", "))
        }
        return "\n" + table.text(style)
    }

    private static func color(of state: Readiness.State) -> TextStyle.Color {
        switch state {
        case .ready: .green
        case .degraded: .yellow
        case .notReady: .red
        }
    }

    /// One fact a line for each credential, then what ends and the routes.
    static func part(_ report: StatusReport, _ style: TextStyle) -> String {
        var parts = report.tokens.map { token in
            let routes = report.routes.filter { $0.credential == token.credential }.map(\.name)
            return TokenText.list(of: token, routes: routes)
        }
        if !report.expirations.isEmpty { parts.append(table(of: report.expirations, style)) }
        if !report.routes.isEmpty { parts.append(table(of: report.routes, style) + failures(of: report.routes)) }
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
        var table = TextTable("ROUTE", "PATH", "UPSTREAM", "CREDENTIAL", "HEALTH", "NEEDS")
        for route in routes {
            let cells = [
                route.name, route.path, route.upstream, route.credential ?? "none", health(of: route),
                route.needs ?? "",
            ]
            table.add(cells, color: .yellow, column: 5)
        }
        return table.text(style)
    }

    /// Of clients with two tokens: the old one can be removed when it is no longer used.
    private static func table(of tokens: [ClientTokenStatus], _ style: TextStyle) -> String {
        var table = TextTable("CLIENT", "TOKEN", "LAST USED")
        for token in tokens {
            table.add(token.client, String(token.number), token.lastUsedAt ?? "not since the start")
        }
        return table.text(style)
    }

    /// Over the last 5 minutes; a dash where nothing was sent in that time.
    private static func health(of route: RouteStatus) -> String {
        guard let health = route.health, let rate = health.failureRate else { return "-" }
        let parts = [
            share(rate, of: health.requests, "failed"),
            share(health.rejectionRate ?? 0, of: health.requests, "rejected (401, 403)"),
        ].compactMap(\.self)
        return parts.isEmpty ? "ok" : parts.joined(separator: ", ")
    }

    private static func share(_ rate: Double, of requests: Int, _ what: String) -> String? {
        if rate == 0 { return nil }
        return rate == 1 ? "all of \(requests) \(what)" : "\(percent(rate)) of \(requests) \(what)"
    }

    /// Never 0 % or 100 %, which mean something else.
    private static func percent(_ rate: Double) -> String { "\(min(max(Int((rate * 100).rounded()), 1), 99)) %" }

    /// What went wrong last with those whose upstream failed in the last 5 minutes.
    private static func failures(of routes: [RouteStatus]) -> String {
        let lines = routes.compactMap { route -> String? in
            guard let health = route.health, health.failureRate ?? 0 > 0, let time = health.lastFailureAt else {
                return nil
            }
            let success = health.lastSuccessAt.map { "the last success was at \($0)" } ?? "there was no success yet"
            let failure = "the last failure of its upstream was at \(time) (\(health.lastFailure ?? "unknown"))"
            let explanation = health.lastFailureExplanation.map { " \($0)" } ?? ""
            let explain = health.lastFailureRequestId.map { GatewayCommand.line("explain", LogText.clean($0)) }
            let command = explain.map { "\n  \($0)" } ?? ""
            return LogText.clean("\(route.name): \(failure); \(success).\(explanation)") + command + "\n"
        }
        return lines.isEmpty ? "" : "\n" + lines.joined()
    }
}
