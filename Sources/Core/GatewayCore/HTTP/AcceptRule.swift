/// Which form of a problem the client prefers (RFC 9110 section 12.5.1).
package enum AcceptRule {
    /// The client accepts `text/plain` and says nothing of JSON or of anything at all.
    package static func prefersText(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        for field in head.fields where bytes.equalsLowercased(field.name, "accept") {
            let accepted = bytes.string(field.value).lowercased()
            return accepted.contains("text/plain") && !accepted.contains("json") && !accepted.contains("*/*")
        }
        return false
    }
}
