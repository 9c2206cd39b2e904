import ArgumentParser
import GatewayRuntime

struct AuditVerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Recompute the chain of the log: finds every edit, deletion, reordering and cut tail.",
        discussion: """
            Examples:
              authgateway audit verify
              authgateway audit verify --path /backup/audit.sqlite

            Needs the installation key that the configuration names. A copy needs its head
            beside it (audit.sqlite.head), which shows whether the end was cut off.
            Exit code 5 when the log is broken.
            """
    )

    @OptionGroup var source: AuditSource
    @OptionGroup var json: JSONFlag

    func run() async throws {
        Console.write(try await source.commands(AuditCommands.Style(asJSON: json.isOn)).verify())
    }
}
