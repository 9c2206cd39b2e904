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
              authgateway token revoke --all                each credential with a token
              authgateway token revoke --all --lock         locks all of them first

            What comes after depends on the strategy: box_ccg gets a new token with the
            next request; a login or a new developer token is needed where a person
            brought the first. When the authority cannot be reached, the token is kept
            so that you can try again (duke_session forgets it all the same), and the
            exit code is 1. Nothing stored: nothing to do, exit code 0.

            With --all there is a line for each credential, weaker tokens before those
            that they were made from. One failure does not stop the rest; the exit code is
            1 then.
            """
    )

    @Flag(name: .customLong("lock"), help: "Lock the credential first: what the Box SDK calls destroy.")
    var locks = false

    @OptionGroup var selection: TokenSelection

    func run() async throws { try await selection.perform(.revoke, locking: locks) }
}
