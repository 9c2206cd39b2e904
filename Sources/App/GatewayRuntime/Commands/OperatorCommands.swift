import GatewayCore

/// What `status`, `routes` and `token` do: ask the running gateway and put its answer into words.
package struct OperatorCommands: Sendable {
    private let client: AdminClient
    private let asJSON: Bool

    /// - Parameter configuration: The path of `gateway.yaml`, for the admin address and the state directory.
    package init(configuration: String, asJSON: Bool) throws(CommandFailure) {
        let plan = try OperatorSettings(configuration: configuration).plan
        client = AdminClient(host: plan.admin.host, port: plan.admin.port, stateDirectory: plan.stateDirectory)
        self.asJSON = asJSON
    }

    package func status() async throws(CommandFailure) -> String {
        let status = Status(
            readiness: try await client.readiness(),
            tokens: try await client.tokens(),
            routes: try await client.routes()
        )
        if asJSON { return try JSONText.pretty(status) }
        var text = status.readiness.isReady ? "ready\n" : "not ready\n"
        text += status.readiness.reasons.map { "  \(LogText.clean($0))\n" }.joined()
        if !status.tokens.isEmpty { text += "\n" + Self.table(of: status.tokens) + Self.errors(of: status.tokens) }
        return text + "\n" + Self.table(of: status.routes)
    }

    package func routes() async throws(CommandFailure) -> String {
        let routes = try await client.routes()
        return asJSON ? try JSONText.pretty(routes) : Self.table(of: routes)
    }

    package func tokens() async throws(CommandFailure) -> String {
        let tokens = try await client.tokens()
        if asJSON { return try JSONText.pretty(tokens) }
        guard !tokens.isEmpty else { return "No credential has a token of its own.\n" }
        return Self.table(of: tokens) + Self.errors(of: tokens)
    }

    package func refresh(_ credential: String) async throws(CommandFailure) -> String {
        try show(await client.refresh(credential))
    }

    package func clear(_ credential: String) async throws(CommandFailure) -> String {
        try show(await client.clear(credential))
    }

    /// - Returns: What is for standard output, and the warnings for standard error.
    /// - Throws: ``ExitStatus/configuration`` when the configuration was refused, with the problems.
    package func reload() async throws(CommandFailure) -> (output: String, warnings: String) {
        let report = try await client.reload()
        let text = asJSON ? try JSONText.pretty(report) : PlanChange.text(report.changes)
        guard report.outcome == .loaded else {
            if asJSON { Console.write(text) }
            throw CommandFailure(report.outcome == .refused ? .configuration : .failed, report.problems)
        }
        return (asJSON ? text : "Loaded. " + text, report.warnings)
    }

    private func show(_ status: TokenStatus) throws(CommandFailure) -> String {
        asJSON ? try JSONText.pretty(status) : Self.table(of: [status]) + Self.errors(of: [status])
    }

    private struct Status: Encodable {
        let readiness: Readiness
        let tokens: [TokenStatus]
        let routes: [RouteStatus]
    }

    private static func table(of tokens: [TokenStatus]) -> String {
        var table = TextTable("CREDENTIAL", "STRATEGY", "STATE", "GENERATION", "EXPIRES IN", "WHAT TO DO")
        for token in tokens {
            table.add(
                token.credential,
                token.strategy,
                token.state.rawValue,
                token.generation == 0 ? "-" : String(token.generation),
                token.remainingSeconds.map { $0 > 0 ? ConfigUnits.countdown($0) : "expired" } ?? "-",
                token.action ?? ""
            )
        }
        return table.text
    }

    /// What went wrong last, below the table: too long for a column.
    private static func errors(of tokens: [TokenStatus]) -> String {
        let lines = tokens.compactMap { token in
            token.lastError.map { "\(LogText.clean(token.credential)): \(LogText.clean($0))\n" }
        }
        return lines.isEmpty ? "" : "\n" + lines.joined()
    }

    private static func table(of routes: [RouteStatus]) -> String {
        var table = TextTable("ROUTE", "PATH", "UPSTREAM", "CREDENTIAL", "NEEDS")
        for route in routes {
            table.add(route.name, route.path, route.upstream, route.credential ?? "none", route.needs ?? "")
        }
        return table.text
    }
}

extension ConfigUnits {
    /// `1h02m`, `4m10s`, `12s`.
    static func countdown(_ seconds: Int) -> String {
        let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60)
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : String(number) }
        if hours > 0 { return "\(hours)h\(two(minutes))m" }
        return minutes > 0 ? "\(minutes)m\(two(rest))s" : "\(rest)s"
    }
}
