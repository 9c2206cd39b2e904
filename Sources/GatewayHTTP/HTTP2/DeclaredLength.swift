/// Compares the content of an HTTP/2 message with its Content-Length (RFC 9113 section 8.1.1).
///
/// A difference would end the message elsewhere for a peer that speaks HTTP/1.
package struct DeclaredLength: Hashable, Sendable {
    /// nil where the length was not declared.
    private var remaining: Int?

    package init(_ framing: BodyFraming) {
        switch framing {
        case .none: remaining = 0
        case .length(let length): remaining = length
        case .chunked, .untilClose: remaining = nil
        }
    }

    /// - Returns: Whether the content can still be as long as declared.
    package mutating func take(_ count: Int, isLast: Bool) -> Bool {
        guard let remaining else { return true }
        let rest = remaining - count
        self.remaining = rest
        return isLast ? rest == 0 : rest >= 0
    }
}
