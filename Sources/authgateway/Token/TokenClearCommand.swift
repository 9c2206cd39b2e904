import ArgumentParser
import GatewayRuntime

struct TokenClearCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clear",
        abstract: "Forget a token here and in the store; the authority is not told.",
        discussion: """
            Examples:
              authgateway token clear box-service
              authgateway token clear --all

            The next request gets a new one. Tokens that stand in the configuration
            count again, so that this is also the way back after they were revoked or
            replaced.
            """
    )

    @OptionGroup var selection: TokenSelection

    func run() async throws { try await selection.perform(.clear) }
}
