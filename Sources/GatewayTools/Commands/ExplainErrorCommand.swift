import ArgumentParser
import GatewayApp
import GatewayHTTP

struct ExplainErrorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain-error",
        abstract: "Say what an error code means, and what to do.",
        discussion: """
            Examples:
              authgateway explain-error
              authgateway explain-error login-required
              authgateway explain-error invalid_client --json

            Codes appear in the gateway's responses, in its log and in the audit log.
            """
    )

    @Argument(help: "The code, or the type of a problem document; all codes if left out.")
    var code: String?

    @OptionGroup var json: JSONFlag

    func run() throws(CommandFailure) {
        if let code {
            let entry = try Self.entry(named: code)
            Console.write(try json.text(of: entry, or: entry.text))
        } else {
            Console.write(try json.text(of: ErrorEntry.all, or: Self.list))
        }
    }

    private static var list: String {
        var table = TextTable("CODE", "STATUS", "MEANING")
        for entry in ErrorEntry.all {
            for code in entry.codes { table.add(code, entry.status.map(String.init) ?? "", entry.title) }
        }
        return table.text
    }

    private static func entry(named text: String) throws(CommandFailure) -> ErrorEntry {
        // The `type` of a problem document ends with its code.
        let code = text.split(separator: ":").last.map(String.init) ?? text
        if let entry = ErrorEntry.named(code) { return entry }
        let hint = Suggestion.hint(for: code, in: ErrorEntry.all.flatMap(\.codes))
        let advice = hint.isEmpty ? "; `authgateway explain-error` lists them" : hint
        throw CommandFailure(.failed, "no error has the code \"\(LogText.clean(code))\"\(advice)")
    }
}
