import ArgumentParser
import GatewayRuntime

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Find every mistake in the configuration.",
        discussion: """
            Examples:
              authgateway check
              authgateway check --acquire
              authgateway check --config /etc/authgateway/gateway.yaml && systemctl restart authgateway

            Reads the file, what it includes and the secrets that it names; starts and creates nothing.
            Exit code 3 when there is a mistake, or when every user may write to one of these files.

            With --acquire one token of each credential is fetched as well, to see whether
            its authority gives one. It is not kept, not used and not in the audit log.
            Credentials that need a login, or whose renewal spends a token (duke_session,
            box_oauth), are not tried. Exit code 1 when one fails.
            """
    )

    @Flag(name: .customLong("acquire"), help: "Fetch a token of each credential, and forget it.")
    var acquires = false

    @OptionGroup var config: ConfigOption

    @OptionGroup var strictModes: StrictModesFlag

    func run() async throws {
        let (output, warnings) = try PlanOperation.check(config.path, strictModes: strictModes.isOn)
        Console.writeError(warnings)
        Console.write(output)
        guard acquires else { return }
        let (lines, failed) = try await PlanOperation.acquire(config.path)
        Console.write(lines)
        guard failed.isEmpty else { throw CommandFailure(.failed, "failed for \(failed.joined(separator: ", "))") }
    }
}
