/// What a key of the configuration means, for people.
///
/// It stands where the key is declared, in ``Keys`` or in a table of a strategy, and the decoder hands it to
/// ``ConfigFields/explain(_:)``. From there it reaches `config explain`, the JSON Schema and diagnostics. A test compares the keys that have a meaning with those that are
/// decoded, so none is left out and none stays behind.
package struct KeyMeaning: Hashable, Sendable {
    /// One or two sentences.
    package let text: String
    /// As it would be written; nil when there is no value without the key.
    package let standard: String?
    /// Where the kind of the value does not say it all; nil takes what the decoder asked for.
    package let type: String?
    /// A value as YAML. More than one line stand below the key.
    package let example: String

    package init(_ text: String, default standard: String? = nil, type: String? = nil, example: String) {
        self.text = text
        self.standard = standard
        self.type = type
        self.example = example
    }

    /// The name of keys that people choose, in a table of meanings.
    package static let anyName = "*"

    /// The key with its example, as lines of YAML.
    ///
    /// - Parameter limit: The maximum number of lines below the key.
    package func lines(for key: String, limit: Int = .max) -> [String] {
        let lines = example.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count > 1 else { return ["\(key): \(example)"] }
        return ["\(key):"] + lines.prefix(limit).map { "  \($0)" }
    }
}
