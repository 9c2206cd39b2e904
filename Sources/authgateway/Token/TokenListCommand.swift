import ArgumentParser
import GatewayRuntime

struct TokenListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the credentials: state, generation, countdown, last acceptance; never the token itself.",
        discussion: """
            Examples:
              authgateway token list
              authgateway token list --json | jq '.[] | select(.state == "expired")'
            """
    )

    @OptionGroup var gateway: RunningGatewayOptions

    func run() async throws {
        Console.write(try await gateway.tokenCommands().list())
    }
}
