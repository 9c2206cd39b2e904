import ArgumentParser
import GatewayRuntime

struct TokenShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show what there is to know about one token; never the token itself.",
        discussion: """
            Examples:
              authgateway token show box-service
              authgateway token show 'box-service[user:42]' --json
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws {
        Console.write(try await options.commands().show(options.name))
    }
}
