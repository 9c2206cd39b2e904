import GatewayHTTP

/// Tells a misspelt name from one that is known. A filter with it would find nothing, and look like a log without such events.
package enum UnknownName {
    /// More are not listed.
    static let listed = 20

    /// - Parameters:
    ///   - kind: What it should be the name of.
    ///   - place: Where a known name would be.
    /// - Returns: What to say; nil when the name is known.
    package static func message(_ name: String, kind: String, in place: String, known: [String]) -> String? {
        guard !known.contains(name) else { return nil }
        let start = "there is no \(kind) \"\(shown(name))\" in \(place)"
        let hint = Suggestion.hint(for: name, in: known)
        guard hint.isEmpty, !known.isEmpty else { return start + hint }
        let names = Set(known).sorted()
        let rest = names.count > listed ? " and \(names.count - listed) more" : ""
        return "\(start); it knows \(names.prefix(listed).map(shown).joined(separator: ", "))\(rest)"
    }

    /// The name that a credential of one subject is made from: `box` of `box[user:42]`.
    package static func base(ofCredential name: String) -> String {
        guard name.hasSuffix("]"), let bracket = name.firstIndex(of: "[") else { return name }
        return String(name[..<bracket])
    }

    private static func shown(_ name: String) -> String {
        let harmless = name.unicodeScalars.prefix(128).map { $0.isHarmless ? $0 : "?" }
        return String(String.UnicodeScalarView(harmless))
    }
}
