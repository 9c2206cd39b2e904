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
              authgateway audit verify --all

            Needs the installation key that the configuration names, or --key.
            Compares the log with its head file, and with audit.anchor where
            that can be read. A copy, such as sqlite3's .backup makes, may end
            before the log does. With its own head beside it
            (audit.sqlite.head) a cut end shows.
            With --all, verifies the chain of each gateway as the shared database
            has it, and shows a line for each.
            Exit code 5 when the log is broken, 1 when its anchor cannot be read.
            """
    )

    @OptionGroup var scope: AuditScope
    @OptionGroup var json: JSONFlag

    @Option(help: ArgumentHelp("A row that the log has to hold, as the anchor got it.", valueName: "id:hash"))
    var head: String?

    @Option(help: ArgumentHelp("The installation key, instead of the configuration's.", valueName: "file"))
    var key: String?

    func validate() throws {
        guard scope.isAll, head != nil else { return }
        throw ValidationError("--head names a row of one log: leave out --all, or --head.")
    }

    func run() async throws {
        let style = AuditCommands.Style(asJSON: json.isOn)
        if let shared = try scope.shared(style) {
            return try await shared.verify(key: key) { Console.write($0) }
        }
        let commands = try scope.source.commands(style)
        Console.write(try await commands.verify(AuditCommands.Proof(head: head, key: key)))
    }
}
