import GatewayCore
import GatewayStrategies

/// What `config explain` does: says what a key of the configuration means.
package enum ExplainOperation {
    /// - Parameter key: nil lists the keys of the document and the strategies, as JSON every key.
    /// - Throws: ``ExitStatus/failed`` when there is no such key.
    package static func explain(_ key: String?, asJSON: Bool) throws(CommandFailure) -> String {
        let search = ConfigKeySearch(.builtIn)
        guard let key else { return asJSON ? try JSONText.pretty(search.keys) : overview(search.top) }
        switch search.find(key) {
        case .found(let keys) where asJSON: return try JSONText.pretty(keys)
        case .found(let keys): return keys.map(\.text).joined(separator: "\n")
        case .unknown(let suggestion):
            let hint = suggestion.map { "; did you mean this?\n" + GatewayCommand.line("config", "explain", $0) } ?? ""
            throw CommandFailure(.failed, "no key is named \"\(LogText.clean(key))\"\(hint)")
        }
    }

    private static func overview(_ keys: [ConfigKey]) -> String {
        var table = TextTable("KEY", "MEANING")
        for key in keys { table.add(key.path, key.meaning?.text ?? "") }
        let kinds = StrategyCatalog.builtIn.kinds.map { "  \($0)\n" }.joined()
        return table.text(.current) + "\nStrategies, whose keys are explained by their name:\n" + kinds
    }
}
