import ArgumentParser

struct ExplainErrorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain-error",
        abstract: "Say what an error code means, and what to do.",
        discussion: """
            Examples:
              authgateway explain-error
              authgateway explain-error login-required
              authgateway explain-error invalid_client --json

            Codes stand in answers of the gateway, in its log and in the audit log.
            """
    )

    @Argument(help: "The code, or the type of a problem document; all codes if left out.")
    var code: String?

    @OptionGroup var json: JSONFlag

    func run() throws {
        Console.write(try ExplainErrorOperation.text(code, asJSON: json.isOn))
    }
}
