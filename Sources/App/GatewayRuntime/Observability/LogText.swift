/// Makes text from anywhere fit for one line of a log: bounded, and without anything that could forge a line.
enum LogText {
    /// The longest value of one field, in bytes.
    static let fieldLimit = 1024

    /// Control characters and line separators become `\u{..}`; what is beyond the limit is cut and marked.
    static func clean(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            guard result.utf8.count < fieldLimit else { return result + "…" }
            if isHarmless(scalar) {
                result.unicodeScalars.append(scalar)
            } else {
                result += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }

    /// In quotation marks when there is something that could be taken for another field.
    static func quoted(_ text: String) -> String {
        let cleaned = clean(text)
        guard cleaned.isEmpty || cleaned.contains(where: { $0 == " " || $0 == "\"" || $0 == "=" }) else {
            return cleaned
        }
        return "\"" + cleaned.replacing("\"", with: "\\\"") + "\""
    }

    /// A JSON string (RFC 8259 §7), quotation marks included.
    static func json(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            guard result.utf8.count < fieldLimit else { return result + "…\"" }
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            default:
                if isHarmless(scalar) {
                    result.unicodeScalars.append(scalar)
                } else {
                    let digits = String(scalar.value, radix: 16)
                    result +=
                        scalar.value > 0xFFFF ? "?" : "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            }
        }
        return result + "\""
    }

    private static func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
        default: true
        }
    }
}
