import ArgumentParser
import GatewayRuntime

struct PlanCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Print what the configuration means, defaults included and secrets left out.",
        discussion: """
            Examples:
              authgateway plan
              authgateway plan --json | jq '.routes[].upstream'
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() throws {
        let (output, warnings) = try PlanOperation.plan(config.path, asJSON: json.isOn)
        Console.writeError(warnings)
        Console.write(output)
    }
}
