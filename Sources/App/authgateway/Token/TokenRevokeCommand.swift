import ArgumentParser
import GatewayRuntime

struct TokenRevokeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Have the authority forget a token, then forget it here.",
        discussion: """
            Examples:
              authgateway token revoke box-service
              authgateway token revoke box-service --lock   until `token unlock`

            What comes after depends on the strategy: box_ccg gets a new token with the
            next request; a login or a new developer token is needed where a person
            brought the first. When the authority cannot be reached, the token is kept
            so that you can try again (duke_session forgets it all the same), and the
            exit code is 1. Nothing stored: nothing to do, exit code 0.
            """
    )

    @Flag(name: .customLong("lock"), help: "Lock the credential first: what the Box SDK calls destroy.")
    var locks = false

    @OptionGroup var options: TokenOptions

    func run() async throws {
        let commands = try options.commands()
        if locks {
            Console.write(try await commands.destroy(options.name))
        } else {
            Console.write(try await commands.perform(.revoke, on: options.name))
        }
    }
}
