import ArgumentParser
import GatewayRuntime

struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Find every mistake in the configuration.",
        discussion: """
            Examples:
              authgateway check
              authgateway check --config /etc/authgateway/gateway.yaml && systemctl restart authgateway

            Reads the file, what it includes and the secrets that it names; starts and creates nothing.
            Exit code 3 when there is a mistake.
            """
    )

    @OptionGroup var config: ConfigOption

    func run() throws {
        let (output, warnings) = try PlanOperation.check(config.path)
        Console.writeError(warnings)
        Console.write(output)
    }
}
