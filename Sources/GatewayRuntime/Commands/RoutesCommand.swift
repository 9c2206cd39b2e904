import ArgumentParser

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

    func run() async throws {
        let commands = try gateway.operatorCommands()
        Console.write(try await commands.routes())
    }
}
