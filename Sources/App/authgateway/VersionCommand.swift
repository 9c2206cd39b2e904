import ArgumentParser
import GatewayRuntime

struct VersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version",
        abstract: "Print the version.",
        discussion: """
            Examples:
              authgateway version
            """
    )

    func run() { Console.write("authgateway \(GatewayVersion.current)\n") }
}
