import ArgumentParser
import GatewayAdmin

struct RoutesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "routes",
        abstract: "List the routes of the running gateway and what each still needs.",
        discussion: """
            Examples:
              authgateway routes
              authgateway routes --json | jq -r '.[].path'
            """
    )

    @OptionGroup var gateway: RunningGatewayOptions

    func run() async throws(CommandFailure) {
        let routes = try await gateway.gateway().client.ask(AdminAPI.routes)
        Console.write(gateway.json.isOn ? try JSONText.pretty(routes) : StatusText.table(of: routes, .current))
    }
}
