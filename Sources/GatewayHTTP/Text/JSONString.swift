/// Writes JSON strings (RFC 8259 section 7).
package enum JSONString {
    /// `text` in quotation marks, with control characters escaped.
    package static func quoted(_ text: String) -> String { quoted(text) { $0.value >= 0x20 && $0.value != 0x7F } }

    /// - Parameters:
    ///   - limit: How many bytes may be written before what is left is cut and marked.
    ///   - isPlain: Whether a character other than quotation marks and backslashes is written as it is.
    package static func quoted(
        _ text: String,
        limit: Int = .max,
        isPlain: (Unicode.Scalar) -> Bool
    ) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            guard quoted.utf8.count < limit else { return quoted + "…\"" }
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\r": quoted += "\\r"
            case "\t": quoted += "\\t"
            case _ where isPlain(scalar): quoted.unicodeScalars.append(scalar)
            default: for unit in scalar.utf16 { quoted += "\\u" + Hexadecimal.number(UInt32(unit)) }
            }
        }
        return quoted + "\""
    }
}

extension Unicode.Scalar {
    /// Can forge no line, move no cursor and reverse nothing that a person reads.
    package var isHarmless: Bool {
        if isASCII { return value >= 0x20 && value != 0x7F }
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: return false
        default: return true
        }
    }
}
