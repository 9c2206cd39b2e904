import ArgumentParser
import GatewayRuntime

struct TokenRefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Renew a token now, whatever its age.",
        discussion: """
            Examples:
              authgateway token refresh box-service
              authgateway token refresh --all      those that can be renewed

            When the authority refuses, a token that has not expired is still used.
            """
    )

    @OptionGroup var selection: TokenSelection

    func run() async throws { try await selection.perform(.refresh) }
}
