import GatewayCore

/// What `status` and `routes` do: ask the running gateway and put its answer into words.
package struct OperatorCommands: Sendable {
    private let client: AdminClient
    private let asJSON: Bool

    /// - Parameter configuration: The path of `gateway.yaml`, for the admin address and the state directory.
    package init(configuration: String, asJSON: Bool) throws(CommandFailure) {
        let plan = try OperatorSettings(configuration: configuration).plan
        client = AdminClient(plan.admin, stateDirectory: plan.stateDirectory)
        self.asJSON = asJSON
    }

    /// - Returns: What is for standard output, and what works no more, or not for long, until a person does something.
    package func status() async throws(CommandFailure) -> (output: String, needing: [String]) {
        let status = Status(
            readiness: try await client.readiness(),
            tokens: try await client.tokens(),
            expirations: try await client.expirations(),
            routes: try await client.routes()
        )
        let stopped = status.tokens.filter(\.needsPerson).map { LogText.clean($0.credential) }
        let expiring = status.expirations.filter(\.isSoon).map { LogText.clean($0.of) }
        let needing = stopped + expiring.filter { !stopped.contains($0) }
        if asJSON { return (try JSONText.pretty(status), needing) }
        var text = status.readiness.isReady ? "ready\n" : "not ready\n"
        text += status.readiness.reasons.map { "  \(LogText.clean($0))\n" }.joined()
        if !status.tokens.isEmpty { text += "\n" + TokenText.table(of: status.tokens) }
        if !status.expirations.isEmpty { text += "\n" + Self.table(of: status.expirations) }
        return (text + "\n" + Self.table(of: status.routes), needing)
    }

    package func routes() async throws(CommandFailure) -> String {
        let routes = try await client.routes()
        return asJSON ? try JSONText.pretty(routes) : Self.table(of: routes)
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

    private struct Status: Encodable {
        let readiness: Readiness
        let tokens: [TokenStatus]
        let expirations: [Expiration]
        let routes: [RouteStatus]

        /// As the admin API names them.
        private enum CodingKeys: String, CodingKey {
            case readiness
            case tokens
            case expirations = "endings"
            case routes
        }
    }

    private static func table(of expirations: [Expiration]) -> String {
        var table = TextTable("ENDS IN", "WHAT", "OF", "AT", "WHAT TO DO")
        for expiration in expirations {
            let remaining = expiration.remainingSeconds
            table.add(
                remaining > 0 ? ConfigUnits.countdown(remaining) : "ended",
                expiration.kind.rawValue,
                expiration.of,
                expiration.endsAt,
                expiration.isSoon ? expiration.action : ""
            )
        }
        return table.text
    }

    private static func table(of routes: [RouteStatus]) -> String {
        var table = TextTable("ROUTE", "PATH", "UPSTREAM", "CREDENTIAL", "NEEDS")
        for route in routes {
            table.add(route.name, route.path, route.upstream, route.credential ?? "none", route.needs ?? "")
        }
        return table.text
    }
}
