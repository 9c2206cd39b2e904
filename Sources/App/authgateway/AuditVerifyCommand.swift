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
              authgateway audit verify --head 120:3f1c…

            Needs the installation key that the configuration names, or --key.
            Compares the log with its head file, and with audit.anchor where
            that can be read. A copy, such as sqlite3's .backup makes, may end
            before the log does. With its own head beside it
            (audit.sqlite.head) a cut end shows.
            Exit code 5 when the log is broken, 1 when its anchor cannot be read.
            """
    )

    @OptionGroup var source: AuditSource
    @OptionGroup var json: JSONFlag

    @Option(help: ArgumentHelp("A row that the log has to hold, as the anchor got it.", valueName: "id:hash"))
    var head: String?

    @Option(help: ArgumentHelp("The installation key, instead of the configuration's.", valueName: "file"))
    var key: String?

    func run() async throws {
        let commands = try source.commands(AuditCommands.Style(asJSON: json.isOn))
        Console.write(try await commands.verify(AuditCommands.Proof(head: head, key: key)))
    }
}
