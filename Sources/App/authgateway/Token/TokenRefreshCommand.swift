import ArgumentParser
import GatewayRuntime

struct TokenRefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Renew a token now, whatever its age.",
        discussion: """
            Examples:
              authgateway token refresh box-service

            A token that lives goes on to be used when the authority refuses.
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws {
        Console.write(try await options.commands().perform(.refresh, on: options.name))
    }
}
