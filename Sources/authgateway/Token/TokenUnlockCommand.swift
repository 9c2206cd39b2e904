import ArgumentParser
import GatewayRuntime

struct TokenUnlockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock",
        abstract: "Use a locked credential again.",
        discussion: """
            Examples:
              authgateway token unlock box-service
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws {
        Console.write(try await options.commands().perform(.unlock, on: options.name))
    }
}
