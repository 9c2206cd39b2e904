import ArgumentParser

struct FleetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "List the gateways that share the token store.",
        discussion: """
            Examples:
              authgateway fleet
              authgateway fleet --admin https://gateway-1.example.com:8443
              authgateway fleet --json | jq '.gateways[] | select(.lag_seconds == null)'

            The gateways are asked to follow at once. LAG is how long each took, at
            most 2 s. A gateway that was not seen for 5 s is not waited for; after a
            day it is no longer listed. CLOCK is the database's clock minus the
            gateway's. UNSHIPPED counts rows of the audit log that the database does
            not have yet. A version or configuration that differs is marked with *.

            Without a running gateway here, the database is asked directly.

            Exit codes: 0 done, 1 failed or not shared, 3 configuration, 4 gateway not
            reachable.
            """
    )

    @OptionGroup var gateway: RunningGatewayOptions

    func run() async throws {
        let commands: FleetCommands
        if let named = try gateway.admin.named(unless: gateway.config) {
            commands = FleetCommands(named, asJSON: gateway.json.isOn)
        } else {
            commands = try FleetCommands(configuration: gateway.config.runningPath(), asJSON: gateway.json.isOn)
        }
        Console.write(try await commands.list())
    }
}
