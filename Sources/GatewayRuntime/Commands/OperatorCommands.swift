import GatewayAdmin
import GatewayCore

/// What `status` and `routes` do: ask the running gateway and put its answer into words.
package struct OperatorCommands: Sendable {
    private let client: AdminClient
    private let asJSON: Bool
    private let style: TextStyle

    /// - Parameter configuration: The path of `gateway.yaml`, for the admin address and the state directory.
    package init(
        configuration: String,
        asJSON: Bool,
        style: TextStyle = .current
    ) throws(CommandFailure) {
        self.style = style
        client = try OperatorSettings(running: configuration).client
        self.asJSON = asJSON
    }

    package init(_ named: NamedAdmin, asJSON: Bool, style: TextStyle = .current) {
        self.style = style
        client = AdminClient(named)
        self.asJSON = asJSON
    }

    /// - Parameter name: A credential or a route; nil is everything.
    /// - Returns: What is for standard output, and what works no more, or not for long, until a person does something.
    package func status(of name: String? = nil) async throws(CommandFailure) -> (output: String, needing: [String]) {
        let report = try await report(on: name)
        let needing = report.needing.map(LogText.clean)
        if asJSON { return (try JSONText.pretty(report), needing) }
        return (name == nil ? StatusText.whole(report, style) : StatusText.part(report, style), needing)
    }

    /// - Returns: What is for standard output when the gateway answers.
    package func alive() async throws(CommandFailure) -> String {
        try await client.requireLife()
        return "ok\n"
    }

    /// - Returns: What is for standard output when the gateway serves requests.
    package func ready() async throws(CommandFailure) -> String {
        let readiness = try await client.readiness()
        guard readiness.isReady else { throw CommandFailure(.failed, readiness.text) }
        return readiness.text + "\n"
    }

    private func report(on name: String?) async throws(CommandFailure) -> StatusReport {
        let report = StatusReport(
            readiness: try await client.readiness(),
            tokens: try await client.ask(AdminAPI.tokens),
            expirations: try await client.ask(AdminAPI.expirations),
            routes: try await client.ask(AdminAPI.routes),
            clientTokens: try await client.ask(AdminAPI.overview).clientTokens
        )
        guard let name else { return report }
        guard let part = report.narrowed(to: name) else {
            let hint = Suggestion.hint(for: name, in: report.names)
            throw CommandFailure(.failed, "no credential or route is named \"\(LogText.clean(name))\"\(hint)")
        }
        return part
    }

    /// Shows the status again and again, until the task is cancelled or the reader is gone. A gateway that does not answer
    /// is waited for.
    package func watch(
        _ name: String?,
        every interval: Duration,
        emit: @Sendable (String) -> Bool
    ) async throws(CommandFailure) {
        let title = "every \(ConfigUnits.text(interval)); Ctrl-C ends it"
        while !Task.isCancelled {
            let text: String
            do throws(CommandFailure) {
                text = try await status(of: name).output
            } catch  where error.status == .unreachable {
                text = "\(error.description)\n"
            }
            // A terminal is cleared; elsewhere one follows the other.
            let page = style.width == nil ? "\(text)\n" : "\u{1B}[H\u{1B}[2J\(title)\n\n\(text)"
            guard emit(page), (try? await Task.sleep(for: interval)) != nil else { return }
        }
    }

    package func routes() async throws(CommandFailure) -> String {
        let routes = try await client.ask(AdminAPI.routes)
        return asJSON ? try JSONText.pretty(routes) : StatusText.table(of: routes, style)
    }

    /// - Returns: What is for standard output, and the warnings for standard error.
    /// - Throws: ``ExitStatus/configuration`` when the configuration was refused, with the problems.
    package func reload() async throws(CommandFailure) -> (output: String, warnings: String) {
        let report = try await client.ask(AdminAPI.reload)
        let text = asJSON ? try JSONText.pretty(report) : PlanChange.text(report.changes)
        guard report.outcome == .loaded else {
            if asJSON { Console.write(text) }
            throw CommandFailure(report.outcome == .refused ? .configuration : .failed, report.problems)
        }
        return (asJSON ? text : "Loaded. " + text, report.warnings)
    }
}
