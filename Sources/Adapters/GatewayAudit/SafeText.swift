/// Text of clients and authorities, made unable to forge a line, move a cursor or reverse what a reader sees.
enum SafeText {
    /// Writes control, format, and line-breaking characters as `\uXXXX`, and cuts the text at `limit` characters.
    static func singleLine(_ text: String, limit: Int = 256) -> String {
        var safe = ""
        var count = 0
        for scalar in text.unicodeScalars {
            guard count < limit else {
                safe += "…"
                break
            }
            if isHarmless(scalar) {
                safe.unicodeScalars.append(scalar)
            } else {
                safe += escape(scalar)
            }
            count += 1
        }
        return safe
    }

    /// A JSON string (RFC 8259 §7) with its quotes.
    static func json(_ text: String) -> String {
        var json = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": json += "\\\""
            case "\\": json += "\\\\"
            default:
                if isHarmless(scalar) {
                    json.unicodeScalars.append(scalar)
                } else {
                    for unit in UTF16.encode(scalar).map({ Array($0) }) ?? [] { json += escape(unit) }
                }
            }
        }
        return json + "\""
    }

    /// A JSON object with its keys in order.
    static func json(_ members: [String: String]) -> String {
        let parts = members.sorted { $0.key < $1.key }.prefix(32).map { key, value in
            "\(json(singleLine(key, limit: 64))):\(json(singleLine(value, limit: 512)))"
        }
        return "{\(parts.joined(separator: ","))}"
    }

    private static func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.isASCII { return scalar.value >= 0x20 && scalar.value != 0x7F }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: return false
        default: return true
        }
    }

    private static func escape(_ scalar: Unicode.Scalar) -> String {
        scalar.value > 0xFFFF ? "\\u{\(String(scalar.value, radix: 16))}" : escape(UInt16(scalar.value))
    }

    private static func escape(_ unit: UInt16) -> String {
        let digits = String(unit, radix: 16)
        return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
    }
}
