import ArgumentParser

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

    func run() async throws {
        let commands = try gateway.operatorCommands()
        if alive {
            Console.write(try await commands.alive())
            return
        }
        if ready {
            Console.write(try await commands.ready())
            return
        }
        if watch { return try await commands.watch(name, every: .seconds(interval)) { Console.write($0) } }
        let (output, needing) = try await commands.status(of: name)
        Console.write(output)
        guard needing.isEmpty else {
            throw CommandFailure(.failed, "needs a person: \(needing.joined(separator: ", "))")
        }
    }
}
