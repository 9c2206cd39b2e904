import ArgumentParser
import GatewayRuntime

struct TokenDownscopeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "downscope",
        abstract: "Print a weaker token, for a browser widget or an app; audited first.",
        discussion: """
            Examples:
              authgateway token downscope box-service --scope base_preview item_download
              authgateway token downscope box-service --scope item_preview \\
                --resource https://api.box.com/2.0/files/1

            The credential's own token is exchanged for one that can do no more than the
            scopes say (RFC 8693; at Box, its downscope). Prints nothing else, so that it
            can stand in a pipe. The token is not kept: it cannot be renewed, and ends by
            itself. Nothing is shown when the audit log cannot be written
            (audit.on_failure: block).

            Clients that should get such tokens without an operator: `vend` of the
            credential, and POST /tokens/NAME on the admin listener.
            """
    )

    // First, because a name behind the scopes would be taken for one of them.
    @OptionGroup var options: TokenOptions

    @Option(
        name: .customLong("scope"),
        parsing: .upToNextOption,
        help: ArgumentHelp("What the token may do; one or more.", valueName: "scope")
    )
    var scopes: [String]

    @Option(help: ArgumentHelp("The one file or folder that it is for, as the URL of its resource.", valueName: "url"))
    var resource: String?

    func run() async throws {
        Console.write(try await options.commands().downscope(options.name, scopes: scopes, resource: resource))
    }
}
