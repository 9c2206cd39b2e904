/// Bounds what fields take at most once they are encoded (RFC 7541 section 5.2).
///
/// The library writes all fields into one frame. It refuses a block that is too long for that only after it has changed the table that
/// both ends share, which breaks the connection.
package struct HTTP2BlockSize: Hashable, Sendable {
    /// The payload of a frame, as every peer takes it.
    package static let maximum = 16_384
    /// New sizes of the table, which come before the first field (RFC 7541 section 6.3).
    private static let tableSizes = 12
    /// An index, and two lengths of up to four bytes.
    private static let framing = 9
    /// In bytes: the longest code of a byte has 30 bits.
    private static let longest = 4

    private let limit: Int
    private var fields = 0
    private var bytes = 0

    /// - Parameter limit: The payload of a frame, as the peer takes it (SETTINGS_MAX_FRAME_SIZE).
    package init(within limit: Int = maximum) { self.limit = limit }

    package mutating func add(_ name: String, _ value: String) {
        fields += 1
        bytes += name.utf8.count + value.utf8.count
    }

    /// - Parameter texts: The names and values that were added. They are read only where their lengths leave it open.
    package func fits(_ texts: some Sequence<String>) -> Bool {
        let framing = Self.tableSizes + Self.framing * fields
        if framing + Self.longest * bytes <= limit { return true }
        return texts.reduce(framing) { $0 + Self.encoded($1) } <= limit
    }

    private static func encoded(_ text: String) -> Int {
        var bits = 0
        for byte in text.utf8 { bits += codeLength(byte) }
        return (bits + 7) / 8
    }

    /// In bits (RFC 7541 appendix B). Beyond printable ASCII it is the longest one.
    private static func codeLength(_ byte: UInt8) -> Int {
        switch byte {
        case 0x30...0x32, 0x61, 0x63, 0x65, 0x69, 0x6F, 0x73, 0x74: 5
        case 0x20, 0x25, 0x2D...0x2F, 0x33...0x39, 0x3D, 0x41, 0x5F, 0x62, 0x64, 0x66...0x68, 0x6C...0x6E, 0x70, 0x72,
            0x75:
            6
        case 0x3A, 0x42...0x57, 0x59, 0x6A, 0x6B, 0x71, 0x76...0x7A: 7
        case 0x26, 0x2A, 0x2C, 0x3B, 0x58, 0x5A: 8
        case 0x21, 0x22, 0x28, 0x29, 0x3F: 10
        case 0x27, 0x2B, 0x7C: 11
        case 0x23, 0x3E: 12
        case 0x24, 0x40, 0x5B, 0x5D, 0x7E: 13
        case 0x5E, 0x7D: 14
        case 0x3C, 0x60, 0x7B: 15
        case 0x5C: 19
        default: 30
        }
    }
}
