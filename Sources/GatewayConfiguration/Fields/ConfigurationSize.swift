/// How large a configuration may be. The limits keep a mistaken file from taking all memory.
package struct ConfigurationSize: Hashable, Sendable {
    package struct Refusal: Error {
        package let message: String
    }

    /// The environment variable that raises the limits.
    package static let variable = "AUTHGATEWAY_CONFIG_ENTRIES"
    static let range = 1...10_000_000

    /// How many routes there may be, how many credentials, and how many clients.
    package let entries: Int
    /// Of one file. That of twenty thousand entries has room for 800 bytes each.
    package var bytes: Int { max(16 << 20, entries * 800) }
    /// Values in one file.
    package var nodes: Int { max(1_000_000, entries * 50) }

    package init(entries: Int = 20_000) { self.entries = entries }

    package static func read(_ environment: (String) -> String?) -> Result<ConfigurationSize, Refusal> {
        guard let text = environment(variable), !text.isEmpty else { return .success(ConfigurationSize()) }
        guard let entries = Int(text), range.contains(entries) else {
            return .failure(
                Refusal(
                    message: "\(variable) is to be a whole number from 1 to \(range.upperBound), without a sign or unit"
                )
            )
        }
        return .success(ConfigurationSize(entries: entries))
    }
}
