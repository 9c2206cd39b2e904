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

            A token that lives goes on to be used when the authority refuses.
            """
    )

    @OptionGroup var selection: TokenSelection

    func run() async throws { try await selection.perform(.refresh) }
}
