import ArgumentParser

struct LogoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Revoke the tokens of a login at the authority, then forget them.",
        discussion: """
            Examples:
              authgateway logout box

            The same as `token revoke`. The next request is refused until somebody logs in
            again. When the authority cannot be reached, the exit code is 1 and the tokens
            are kept, so that you can try again (duke_session forgets them all the same).
            `token clear` forgets them here alone.
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws {
        Console.write(try await options.commands().perform(.revoke, on: options.name))
    }
}
