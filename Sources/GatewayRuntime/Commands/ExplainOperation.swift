private import CPresets
import FoundationEssentials
import GatewayCore
import GatewayStrategies

/// What `config explain` does: says what a key of the configuration means.
package enum ExplainOperation {
    /// - Parameter key: nil lists the keys of the document and the strategies, as JSON every key.
    /// - Throws: ``ExitStatus/failed`` when there is no such key.
    package static func explain(_ key: String?, asJSON: Bool) throws(CommandFailure) -> String {
        let search = try ConfigKeySearch(kept(), kinds: StrategyCatalog.builtIn.kinds)
        guard let key else { return asJSON ? try JSONText.pretty(search.keys) : overview(search.top) }
        switch search.find(key) {
        case .found(let keys) where asJSON: return try JSONText.pretty(keys)
        case .found(let keys): return keys.map(\.text).joined(separator: "\n")
        case .unknown(let suggestion):
            let hint = suggestion.map { "; did you mean this?\n" + GatewayCommand.line("config", "explain", $0) } ?? ""
            throw CommandFailure(.failed, "no key is named \"\(LogText.clean(key))\"\(hint)")
        }
    }

    /// `schema/keys.json`, which a test compares with the decoders. Asking those takes seconds.
    static func kept() throws(CommandFailure) -> [ConfigKey] {
        var length = 0
        let start = unsafe authgateway_config_keys(&length)
        do {
            return try JSONDecoder().decode([ConfigKey].self, from: unsafe Data(bytes: start, count: length))
        } catch {
            throw CommandFailure(
                .failed,
                "the list of keys in this program is damaged: \(error)\nReport this as a bug."
            )
        }
    }

    private static func overview(_ keys: [ConfigKey]) -> String {
        var table = TextTable("KEY", "MEANING")
        for key in keys { table.add(key.path, key.meaning ?? "") }
        let kinds = StrategyCatalog.builtIn.kinds.map { "  \($0)\n" }.joined()
        return table.text(.current) + "\nStrategies, whose keys are explained by their name:\n" + kinds
    }
}
