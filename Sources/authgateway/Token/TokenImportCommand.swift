import ArgumentParser
import GatewayRuntime

struct TokenImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Give the gateway a token in the place of the one it has.",
        discussion: """
            Examples:
              authgateway token import devbox        asks for it, and does not show it
              authgateway token import devbox < token.txt
              pass show box/oauth | authgateway token import box-user
              authgateway token import campus --file pair.json

            It is the access token in one line, or JSON as an authority answers it:
              {"access_token": "…", "refresh_token": "…", "expires_in": 3600}
            session_token stands for refresh_token (Duke), and expires_at for
            expires_in. A token that can be renewed is renewed at once; when the
            authority refuses it, nothing is imported and the earlier one is kept.
            """
    )

    @Option(
        name: [.customShort("f"), .customLong("file")],
        help: ArgumentHelp("Where the token is; otherwise it comes from standard input.", valueName: "file")
    )
    var file: String?

    @OptionGroup var options: TokenOptions

    @Argument(help: .hidden)
    var others: [String] = []

    func validate() throws {
        guard others.isEmpty else {
            throw ValidationError(
                "A token is not given as an argument, where other users and the shell's history see it. Pipe it in, or "
                    + "use --file."
            )
        }
    }

    func run() async throws {
        let commands = try options.commands()
        let bytes = try SecretInput.read(file, asking: "Token for \(options.name) (not shown; Enter ends it): ")
        Console.write(try await commands.import(bytes, for: options.name))
    }
}
