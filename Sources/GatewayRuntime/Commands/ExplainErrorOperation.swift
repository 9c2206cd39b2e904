import GatewayCore

/// What `explain-error` does.
package enum ExplainErrorOperation {
    /// - Parameter code: nil lists all of them.
    package static func text(_ code: String?, asJSON: Bool) throws(CommandFailure) -> String {
        guard let code else {
            if asJSON { return try JSONText.pretty(ErrorEntry.all) }
            var table = TextTable("CODE", "STATUS", "MEANING")
            for entry in ErrorEntry.all {
                for code in entry.codes { table.add(code, entry.status.map(String.init) ?? "", entry.title) }
            }
            return table.text
        }
        let entry = try entry(named: code)
        return asJSON ? try JSONText.pretty(entry) : entry.text
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
