import ArgumentParser
import GatewayApp
import GatewayAudit
import GatewayEvents

struct AuditIndexCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "index",
        abstract: "Add the indices that a large log of an earlier version lacks, while its gateway is stopped.",
        discussion: """
            Examples:
              authgateway audit index
              authgateway audit index --path /backup/audit.sqlite

            A new log has them, and a gateway adds them by itself to a log of up to
            2 million rows. 20 million rows take some minutes, and the file nearly
            doubles: from 2.2 GB to 4.2 GB. Make sure that the disk has room for it.
            """
    )

    @OptionGroup var source: AuditSource

    func run() throws(CommandFailure) {
        let path = try source.log().path
        let count: Int
        do throws(AuditError) {
            count = try AuditIndexing.complete(path) { Console.writeError("\($0) …\n") }
        } catch {
            throw CommandFailure(.failed, error.reason)
        }
        Console.write(count == 0 ? "The log has all of its indices.\n" : "Indices added: \(count).\n")
    }
}
