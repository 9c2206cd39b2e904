import FoundationEssentials

/// What `--json` prints.
enum JSONText {
    /// One value, readable, with names in `snake_case` and a line break at the end.
    static func pretty(_ value: some Encodable) throws(CommandFailure) -> String {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(value) else {
            throw CommandFailure(.failed, "the result cannot be written as JSON")
        }
        return String(decoding: data, as: UTF8.self) + "\n"
    }
}
