import ArgumentParser

struct PlanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Print what the configuration means, secrets left out, and what a reload would change.",
        discussion: """
            Examples:
              authgateway plan
              authgateway plan --config new.yaml --against gateway.yaml
              authgateway plan --json | jq '.routes[].upstream'

            Asks the running gateway what a reload would add (+), change (~) and drop (-).
            """
    )

    @OptionGroup var config: ConfigOption

    @Option(help: ArgumentHelp("Compare with this configuration, not with the running gateway.", valueName: "file"))
    var against: String?

    @OptionGroup var json: JSONFlag

    func run() async throws {
        let (output, warnings) = try await PlanOperation.plan(config.path, against: against, asJSON: json.isOn)
        Console.writeError(warnings)
        Console.write(output)
    }
}
