import GatewayHTTP

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
            if scalar.isHarmless {
                safe.unicodeScalars.append(scalar)
            } else {
                safe += escape(scalar)
            }
            count += 1
        }
        return safe
    }

    /// A JSON string with its quotes.
    static func json(_ text: String) -> String { JSONString.quoted(text, isPlain: \.isHarmless) }

    /// A JSON object with its keys in order.
    static func json(_ members: [String: String]) -> String {
        let parts = members.sorted { $0.key < $1.key }.prefix(32).map { key, value in
            "\(json(singleLine(key, limit: 64))):\(json(singleLine(value, limit: 512)))"
        }
        return "{\(parts.joined(separator: ","))}"
    }

    private static func escape(_ scalar: Unicode.Scalar) -> String {
        scalar.value > 0xFFFF ? "\\u{\(String(scalar.value, radix: 16))}" : "\\u" + Hexadecimal.number(scalar.value)
    }
}

/// One line of JSON Lines, put together member by member.
struct JSONLine {
    private var members: [String] = []

    mutating func add(_ name: String, _ text: String?) { add(name, verbatim: text.map(SafeText.json) ?? "null") }
    mutating func add(_ name: String, _ number: Int64?) { add(name, verbatim: number.map(String.init) ?? "null") }
    mutating func add(_ name: String, _ flag: Bool) { add(name, verbatim: "\(flag)") }

    /// - Parameter json: Must be JSON, on one line.
    mutating func add(_ name: String, verbatim json: String) { members.append("\"\(name)\":\(json)") }

    var text: String { "{\(members.joined(separator: ","))}" }
}
