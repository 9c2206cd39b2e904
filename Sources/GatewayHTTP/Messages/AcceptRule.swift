/// Which form of a problem the client prefers (RFC 9110 section 12.5.1).
package enum AcceptRule {
    /// The client accepts `text/plain` and says nothing of JSON or of anything at all.
    package static func prefersText(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        var acceptsText = false
        // Several fields are one list (RFC 9110 section 5.3).
        for field in head.fields where bytes.equalsLowercased(field.name, "accept") {
            let accepted = bytes.string(field.value).lowercased()
            if accepted.contains("json") || accepted.contains("*/*") { return false }
            acceptsText = acceptsText || accepted.split(separator: ",").contains(where: isText)
        }
        return acceptsText
    }

    /// `text/plain`, unless its weight is 0, which refuses it (RFC 9110 section 12.4.2).
    private static func isText(_ range: Substring) -> Bool {
        let parts = range.filter { $0 != " " && $0 != "\t" }.split(separator: ";")
        guard parts.first == "text/plain" else { return false }
        return !parts.dropFirst().contains { $0.hasPrefix("q=0") && $0.dropFirst(3).allSatisfy { ".0".contains($0) } }
    }
}
