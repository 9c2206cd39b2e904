import ArgumentParser
import GatewayRuntime

struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "See, renew, replace, revoke and lock the tokens of the gateway.",
        discussion: """
            Examples:
              authgateway token list
              authgateway token show box-service
              authgateway token revoke box-service --lock
              authgateway token revoke --all
              authgateway token import devbox < token.txt
              authgateway token get box-service | wl-copy

            All of it goes through the running gateway and into its audit log. When no
            gateway runs, everything but get, downscope and refresh works on its state
            directory, with the same configuration and environment.

            Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 configuration,
            4 gateway not reachable.
            """,
        subcommands: [
            TokenListCommand.self,
            TokenShowCommand.self,
            TokenGetCommand.self,
            TokenDownscopeCommand.self,
            TokenRefreshCommand.self,
            TokenRevokeCommand.self,
            TokenClearCommand.self,
            TokenImportCommand.self,
            TokenLockCommand.self,
            TokenUnlockCommand.self,
        ]
    )
}

/// What every command on one token is given.
struct TokenOptions: ParsableArguments {
    @Argument(help: "The credential, as `token list` names it.")
    var name: String

    @OptionGroup var gateway: RunningGatewayOptions

    func commands() throws -> TokenCommands { try gateway.tokenCommands() }
}
