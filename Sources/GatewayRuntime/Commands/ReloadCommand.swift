import ArgumentParser
import GatewayAdmin
import GatewayCore

struct ReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Let the running gateway read its configuration again, and say what became of it.",
        discussion: """
            Examples:
              authgateway plan && authgateway reload
              authgateway reload --json | jq '.changes[] | select(.kind != "kept")'

            The new configuration is served whole or not at all. Secrets and certificates
            are read again. Exit code 3 when it was refused, 4 when no gateway answers.
            """
    )

    @OptionGroup var gateway: RunningGatewayOptions

    func run() async throws(CommandFailure) {
        let report = try await gateway.gateway().client.ask(AdminAPI.reload)
        let text = gateway.json.isOn ? try JSONText.pretty(report) : PlanChange.text(report.changes)
        guard report.outcome == .loaded else {
            if gateway.json.isOn { Console.write(text) }
            throw CommandFailure(report.outcome == .refused ? .configuration : .failed, report.problems)
        }
        Console.writeError(report.warnings)
        Console.write(gateway.json.isOn ? text : "Loaded. " + text)
    }
}
