/// Bounds what fields take at most once they are encoded (RFC 7541 section 5.2).
///
/// The library writes all fields into one frame. It refuses a block that is too long for that only after it has changed the table that
/// both ends share, which breaks the connection.
package struct HTTP2BlockSize: Hashable, Sendable {
    /// The payload of a frame, as every peer takes it.
    package static let maximum = 16_384
    /// An index, and two lengths of up to three bytes.
    private static let framing = 7
    /// The longest code of a byte has 30 bits.
    private static let longest = 4

    private var fields = 0
    private var bytes = 0

    package init() {}

    package mutating func add(_ name: String, _ value: String) {
        fields += 1
        bytes += name.utf8.count + value.utf8.count
    }

    /// - Parameter texts: The names and values that were added. They are read only where their lengths leave it open.
    package func fits(_ texts: some Sequence<String>) -> Bool {
        if Self.framing * fields + Self.longest * bytes <= Self.maximum { return true }
        return texts.reduce(Self.framing * fields) { $0 + Self.bound($1) } <= Self.maximum
    }

    private static func bound(_ text: String) -> Int {
        var bytes = 0
        for byte in text.utf8 { bytes += length(byte) }
        return bytes
    }

    /// In whole bytes: up to 8 bits for what most fields have, 19 for the rest of ASCII, and 30 for anything else.
    private static func length(_ byte: UInt8) -> Int {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x20, 0x25, 0x26, 0x2A, 0x2C...0x2F, 0x3A, 0x3B, 0x3D, 0x5F: 1
        case 0x21...0x7E: 3
        default: 4
        }
    }
}
