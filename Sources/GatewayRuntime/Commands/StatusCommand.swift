import ArgumentParser
import GatewayAdmin
import GatewayCore

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
            (refresh tokens), secrets whose end the configuration states (expires),
            certificates.

            Exit code 1 when a credential needs a person (a login, a new developer
            token, an unlock) or something of these ends soon: a token within 10
            minutes, a login within 7 days, a secret or certificate within 14 days,
            what lives shortly within the last fifth of its life. 4 when no gateway
            answers. With --alive: 0 when one answers, 4 otherwise. With --ready: 0
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
        if alive, watch || gateway.json.isOn || name != nil { throw ValidationError("--alive stands alone.") }
        if ready, alive || watch || gateway.json.isOn || name != nil { throw ValidationError("--ready stands alone.") }
        guard (1...3600).contains(interval) else { throw ValidationError("--interval is between 1 and 3600 seconds.") }
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
        let needing = report.needing.map(LogText.clean)
        guard needing.isEmpty else {
            throw CommandFailure(.failed, "needs a person: \(needing.joined(separator: ", "))")
        }
    }

    /// Shows the status again and again, until the task is cancelled or the reader is gone. A gateway that does not answer
    /// is waited for.
    private func watch(_ client: AdminClient) async throws(CommandFailure) {
        let style = TextStyle.current
        let title = "every \(ConfigUnits.text(.seconds(interval))); Ctrl-C ends it"
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
        let routes = try await gateway.gateway().client.ask(AdminAPI.routes)
        Console.write(try gateway.json.text(of: routes, or: StatusText.table(of: routes, .current)))
    }
}
