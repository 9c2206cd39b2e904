import ArgumentParser
import GatewayApp
import GatewayHTTP
import GatewayProxy
import GatewayTokens

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show whether the running gateway is ready, and the state of its credentials and routes.",
        discussion: """
            Examples:
              authgateway status
              authgateway status box-service
              authgateway status --watch
              authgateway status --alive
              authgateway status --ready
              authgateway status --json | jq '.tokens[] | select(.state != "valid")'

            Counts down what only a person can replace: developer tokens, logins
            (refresh tokens), secrets whose expiry the configuration states (expires),
            certificates.

            Exit code 1 when the gateway is not ready, when something needs a person
            (a login, a new developer token, an unlock, a refused configuration), or
            when something expires soon: a token within 10 minutes, a login within 7
            days, a secret or certificate within 14 days, anything short-lived within
            the last fifth of its life. 4 when no gateway answers.
            With --alive: 0 when one answers, 4 otherwise. With --ready: 0
            when it serves requests, also while a credential fails; 1 otherwise.
            """
    )

    @Argument(help: "Only this credential or route.")
    var name: String?

    @Flag(help: "Show it again and again, until Ctrl-C.")
    var watch = false

    @Option(help: ArgumentHelp("How long to wait in between, with --watch.", valueName: "seconds"))
    var interval = 2

    @Flag(help: "Only whether the gateway answers, for a health check; credentials do not count.")
    var alive = false

    @Flag(help: "Only whether the gateway serves requests, for a load balancer; credentials do not count.")
    var ready = false

    @OptionGroup var gateway: RunningGatewayOptions

    func validate() throws {
        if watch, gateway.json.isOn { throw ValidationError("--watch is for people; call status --json in a loop.") }
        if alive, watch || gateway.json.isOn || name != nil {
            throw ValidationError("--alive cannot be combined with --watch, --json or a name.")
        }
        if ready, alive || watch || gateway.json.isOn || name != nil {
            throw ValidationError("--ready cannot be combined with --alive, --watch, --json or a name.")
        }
        guard (1...3600).contains(interval) else {
            throw ValidationError("--interval must be between 1 and 3600 seconds.")
        }
    }

    func run() async throws(CommandFailure) {
        let client = try gateway.gateway().client
        if alive {
            try await client.requireLife()
            Console.write("ok\n")
            return
        }
        if ready {
            let readiness = try await client.readiness()
            guard readiness.isReady else { throw CommandFailure(.failed, readiness.text) }
            Console.write(readiness.text + "\n")
            return
        }
        if watch { return try await watch(client) }
        let report = try await report(of: client)
        Console.write(try gateway.json.text(of: report, or: text(of: report, .current)))
        guard report.readiness.isReady else {
            let reasons = report.readiness.reasons.map { ": \(LogText.clean($0))" }
            throw CommandFailure(.failed, report.readiness.text + (reasons.first ?? ""))
        }
        let needing = report.needing.map(LogText.clean)
        guard needing.isEmpty else {
            throw CommandFailure(.failed, "needs a person: \(needing.joined(separator: ", "))")
        }
    }

    /// Shows the status again and again, until the task is cancelled or the reader is gone. A gateway that does not answer
    /// is waited for.
    private func watch(_ client: AdminClient) async throws(CommandFailure) {
        let style = TextStyle.current
        let title = "every \(ConfigUnits.text(.seconds(interval))); Ctrl-C stops"
        while !Task.isCancelled {
            let text: String
            do throws(CommandFailure) {
                text = self.text(of: try await report(of: client), style)
            } catch  where error.status == .unreachable {
                text = "\(error.description)\n"
            }
            // A terminal is cleared; elsewhere one follows the other.
            let page = style.width == nil ? "\(text)\n" : "\u{1B}[H\u{1B}[2J\(title)\n\n\(text)"
            guard Console.write(page), (try? await Task.sleep(for: .seconds(interval))) != nil else { return }
        }
    }

    private func report(of client: AdminClient) async throws(CommandFailure) -> StatusReport {
        let report = StatusReport(
            readiness: try await client.readiness(),
            tokens: try await client.ask(AdminAPI.operations.tokens),
            expirations: try await client.ask(AdminAPI.operations.expirations),
            routes: try await client.ask(AdminAPI.operations.routes),
            clientTokens: try await client.ask(AdminAPI.operations.overview).clientTokens
        )
        guard let name else { return report }
        guard let part = report.narrowed(to: name) else {
            let hint = Suggestion.hint(for: name, in: report.names)
            throw CommandFailure(.failed, "no credential or route is named \"\(LogText.clean(name))\"\(hint)")
        }
        return part
    }

    private func text(of report: StatusReport, _ style: TextStyle) -> String {
        name == nil ? StatusText.whole(report, style) : StatusText.part(report, style)
    }
}

struct RoutesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "routes",
        abstract: "List the routes of the running gateway and what each still needs.",
        discussion: """
            Examples:
              authgateway routes
              authgateway routes --json | jq -r '.[].path'
            """
    )

    @OptionGroup var gateway: RunningGatewayOptions

    func run() async throws(CommandFailure) {
        let routes = try await gateway.gateway().client.ask(AdminAPI.operations.routes)
        Console.write(try gateway.json.text(of: routes, or: StatusText.table(of: routes, .current)))
    }
}

/// `status` as people read it.
private enum StatusText {
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
        var table = TextTable("EXPIRES IN", "WHAT", "OF", "AT", "WHAT TO DO")
        for expiration in expirations {
            let remaining = expiration.remainingSeconds
            let cells = [
                remaining > 0 ? ConfigUnits.countdown(remaining) : "expired",
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

    /// Clients that have two tokens. The old one can be removed when it is no longer used.
    private static func table(of tokens: [ClientTokenStatus], _ style: TextStyle) -> String {
        var table = TextTable("CLIENT", "TOKEN", "LAST USED")
        for token in tokens {
            table.add(token.client, String(token.number), token.lastUsedAt ?? "not since the start")
        }
        return table.text(style)
    }

    /// Over the last 5 minutes; a dash where nothing was sent in that time.
    private static func health(of route: RouteStatus) -> String {
        guard let health = route.health else { return "-" }
        let silence = health.silence
        guard let rate = health.failureRate else { return silence ?? "-" }
        let parts = [
            silence,
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
