import ArgumentParser
import GatewayRuntime

struct TokenGetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Print the access token. Recorded in the audit log before it is shown.",
        discussion: """
            Examples:
              authgateway token get box-service
              curl -H "Authorization: Bearer $(authgateway token get box-service)" URL

            Obtains one when there is none. Prints nothing else, so that it can stand in
            a pipe. The token that renews is never shown. Nothing is shown when the audit
            log cannot be written (audit.on_failure: block).
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws {
        Console.write(try await options.commands().get(options.name))
    }
}
