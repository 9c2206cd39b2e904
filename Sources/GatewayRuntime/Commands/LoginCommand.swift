import ArgumentParser

struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Log in with a browser for a credential that needs a person.",
        discussion: """
            Examples:
              authgateway login box            open a browser, wait for it to come back
              authgateway login box --manual   over SSH: paste the address of the last page
              authgateway login box --device   type a short code on a page, on any device

            Goes through the running gateway; without one the token is put into the token
            store. What is pasted is read from standard input and is not shown. Exit code
            1 when the login failed, with the reason.
            """
    )

    @Argument(help: "The credential, as the configuration names it.")
    var name: String

    @Flag(help: "Wait for a paste instead of a browser of this machine.")
    var manual = false

    @Flag(help: "Log in on another device (RFC 8628); the credential needs device_authorization_url.")
    var device = false

    @Flag(help: "Only print the address.")
    var noBrowser = false

    @Option(
        help: ArgumentHelp(
            "How long to wait, such as 5m (the default; for --device as long as the code is valid).",
            valueName: "duration"
        )
    )
    var timeout: String?

    @OptionGroup var config: ConfigOption

    @Argument(help: .hidden)
    var others: [String] = []

    func validate() throws {
        guard !device || !manual else {
            throw ValidationError("--device and --manual are two ways to log in: choose one.")
        }
        guard others.isEmpty else {
            throw ValidationError(
                "What the browser ended on is not given as an argument, where other users and the shell's history see it."
                    + " Use --manual, and paste it when you are asked."
            )
        }
    }

    private var way: LoginWay { device ? .device : manual ? .paste : .browser }

    func run() async throws {
        let login = try LoginOperation(
            configuration: config.runningPath(),
            credential: name,
            way: way,
            opensBrowser: way == .browser && !noBrowser && Console.isErrorTerminal,
            timeout: timeout
        )
        Console.write(try await login.run())
    }
}
