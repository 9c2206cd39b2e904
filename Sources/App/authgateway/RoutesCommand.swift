import ArgumentParser
import GatewayRuntime

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

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws {
        let commands = try OperatorCommands(configuration: config.runningPath(), asJSON: json.isOn)
        Console.write(try await commands.routes())
    }
}
