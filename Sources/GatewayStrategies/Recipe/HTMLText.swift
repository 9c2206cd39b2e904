import GatewayCore

/// Reads what stands in a web page, where `&` and quotes are written as character references.
enum HTMLText {
    /// Those that programs write when they escape a value; a page's author has others, which do not stand in tokens.
    private static let named: [String: Unicode.Scalar] = [
        "amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'", "nbsp": "\u{A0}", "plus": "+", "equals": "=",
        "sol": "/", "colon": ":", "comma": ",", "period": ".", "lowbar": "_", "num": "#", "percnt": "%",
    ]
    private static let longestReference = 10

    /// A reference that is not known stays as it is.
    static func decoded(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        var rest = bytes[...]
        while let start = rest.firstIndex(of: UInt8(ascii: "&")) {
            text += rest[..<start]
            rest = rest[start...]
            let reference = rest.dropFirst().prefix(longestReference).prefix { $0 != UInt8(ascii: ";") }
            guard reference.endIndex < rest.endIndex, rest[reference.endIndex] == UInt8(ascii: ";"),
                let character = character(String(decoding: reference, as: UTF8.self))
            else {
                text.append(UInt8(ascii: "&"))
                rest = rest.dropFirst()
                continue
            }
            text += String(character).utf8
            rest = rest[(reference.endIndex + 1)...]
        }
        return text + rest
    }

    private static func character(_ reference: String) -> Unicode.Scalar? {
        guard reference.hasPrefix("#") else { return named[reference] }
        let digits = reference.dropFirst()
        let isHexadecimal = digits.hasPrefix("x") || digits.hasPrefix("X")
        let number = isHexadecimal ? UInt32(digits.dropFirst(), radix: 16) : UInt32(digits)
        return number.flatMap { $0 == 0 ? nil : Unicode.Scalar($0) }
    }
}

extension TokenReply {
    /// Whether the body is a web page: by its type, or by its first character if there is no type.
    var isHTML: Bool {
        if let type = field("Content-Type") { return type.lowercased().contains("html") }
        return body.first { $0 > 0x20 } == UInt8(ascii: "<")
    }
}
