import FoundationEssentials

/// RFC 4648.
package enum Base64 {
    /// The standard alphabet with padding (§4).
    package static func encode(_ bytes: some Sequence<UInt8>) -> String { Data(bytes).base64EncodedString() }

    /// The URL-safe alphabet without padding (§5), as JSON web tokens have it.
    package static func encodeURL(_ bytes: some Sequence<UInt8>) -> String {
        encode(bytes).filter { $0 != "=" }.replacing("+", with: "-").replacing("/", with: "_")
    }

    /// Reads the standard alphabet with padding (§4); nil when `text` is anything else.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        Data(base64Encoded: Data(text.utf8)).map { Array($0) }
    }

    /// Reads the URL-safe alphabet (§5), with or without padding; nil when `text` is anything else.
    package static func decodeURL(_ text: some StringProtocol) -> [UInt8]? {
        var standard: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "-"): standard.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): standard.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"): return nil
            case UInt8(ascii: "="): continue
            default: standard.append(byte)
            }
        }
        standard.append(contentsOf: repeatElement(UInt8(ascii: "="), count: (4 - standard.count % 4) % 4))
        return Data(base64Encoded: Data(standard)).map { Array($0) }
    }
}
