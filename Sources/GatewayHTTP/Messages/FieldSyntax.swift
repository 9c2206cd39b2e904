/// The grammar of field names and values (RFC 9110 §5.1, §5.5), for what we write ourselves.
package enum FieldSyntax {
    /// `token`, RFC 9110 §5.6.2: field names, authentication schemes.
    package static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy(isTokenByte)
    }

    /// Visible ASCII with spaces between; empty and padded values are refused, because a peer would trim them.
    package static func isValue(_ text: String) -> Bool {
        guard let first = text.utf8.first, let last = text.utf8.last, first != 0x20, last != 0x20 else { return false }
        return text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }

    /// Hop-by-hop, routing and framing fields (RFC 9110 §7.2, §7.6.1, §8.6; RFC 9112 §6): the gateway writes them itself.
    ///
    /// In lower case.
    package static let reserved: Set<String> = [
        "connection", "content-encoding", "content-length", "expect", "gateway-loop", "host", "http2-settings",
        "keep-alive",
        "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding",
        "upgrade", "via",
    ]

    /// What servers make of a name that turn `_` into `-`, in lower case: names that are equal then can be mistaken for each
    /// other.
    package static func slot(_ name: String) -> String { name.lowercased().replacing("_", with: "-") }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x23, 0x24, 0x25, 0x26, 0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E, 0x5F, 0x60, 0x7C, 0x7E: true
        default: false
        }
    }
}
