import ArgumentParser
import GatewayRuntime

struct TokenLockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Stop using a credential: it is neither injected nor renewed, over restarts too.",
        discussion: """
            Examples:
              authgateway token lock box-service
              authgateway token lock openai

            An API key or a password of the configuration can be locked, too. All
            credentials with the same secret are locked with it.
            Requests that need it are answered with 503 (locked) until `token unlock`.
            The token itself is kept, and is still good at the authority: see
            `token revoke --lock`.
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws {
        Console.write(try await options.commands().perform(.lock, on: options.name))
    }
}
