import ArgumentParser
import GatewayRuntime

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show whether the running gateway is ready, and the state of its credentials and routes.",
        discussion: """
            Examples:
              authgateway status
              authgateway status --json | jq '.tokens[] | select(.state != "valid")'

            Exit code 4 when no gateway answers.
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws {
        let commands = try OperatorCommands(configuration: config.path, asJSON: json.isOn)
        Console.write(try await commands.status())
    }
}
