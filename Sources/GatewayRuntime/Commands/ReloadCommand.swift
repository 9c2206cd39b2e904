import ArgumentParser

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

    func run() async throws {
        let commands = try gateway.operatorCommands()
        let (output, warnings) = try await commands.reload()
        Console.writeError(warnings)
        Console.write(output)
    }
}
