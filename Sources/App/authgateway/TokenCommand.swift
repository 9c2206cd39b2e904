import ArgumentParser
import GatewayRuntime

struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "List, renew and clear the tokens of the running gateway.",
        discussion: """
            Examples:
              authgateway token list
              authgateway token refresh box-service
              authgateway token clear 'box-service[user:42]'
            """,
        subcommands: [TokenListCommand.self, TokenRefreshCommand.self, TokenClearCommand.self]
    )
}

struct TokenListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the tokens: state, generation and countdown; never the token itself.",
        discussion: """
            Examples:
              authgateway token list
              authgateway token list --json
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws {
        let commands = try OperatorCommands(configuration: config.path, asJSON: json.isOn)
        Console.write(try await commands.tokens())
    }
}

struct TokenRefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Renew a token now, whatever its age.",
        discussion: """
            Examples:
              authgateway token refresh box-service
            """
    )

    @Argument(help: "The credential, as `token list` names it.")
    var name: String

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws {
        let commands = try OperatorCommands(configuration: config.path, asJSON: json.isOn)
        Console.write(try await commands.refresh(name))
    }
}

struct TokenClearCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clear",
        abstract: "Forget a token here and in the store; the authority is not told.",
        discussion: """
            Examples:
              authgateway token clear box-service

            The next request gets a new one.
            """
    )

    @Argument(help: "The credential, as `token list` names it.")
    var name: String

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws {
        let commands = try OperatorCommands(configuration: config.path, asJSON: json.isOn)
        Console.write(try await commands.clear(name))
    }
}
