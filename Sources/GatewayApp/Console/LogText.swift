import FoundationEssentials
package import GatewayHTTP

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Makes text from anywhere fit for one line of a log: bounded, and without anything that could forge a line.
package enum LogText {
    /// The longest value of one field, in bytes.
    static let fieldLimit = 1024

    /// Control characters and line separators become `\u{..}`; what is beyond the limit is cut and marked.
    package static func clean(_ text: String) -> String { text.singleLine(limit: fieldLimit) }

    /// Puts the text into quotation marks if part of it could be taken for another field.
    static func quoted(_ text: String) -> String {
        let cleaned = clean(text)
        guard cleaned.isEmpty || cleaned.contains(where: { $0 == " " || $0 == "\"" || $0 == "=" }) else {
            return cleaned
        }
        return "\"" + cleaned.replacing("\"", with: "\\\"") + "\""
    }

    /// A JSON string, quotation marks included.
    static func json(_ text: String) -> String {
        JSONString.quoted(text, limit: fieldLimit, isPlain: \.isHarmless)
    }
}

/// What `--json` prints.
package enum JSONText {
    /// One value, readable, with names in `snake_case` and a line break at the end.
    package static func pretty(_ value: some Encodable) throws(CommandFailure) -> String {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(value) else {
            throw CommandFailure(.failed, "the result cannot be written as JSON")
        }
        return String(decoding: data, as: UTF8.self) + "\n"
    }
}

/// The zone of this machine (`TZ`, `/etc/localtime`), as the C library has it: Foundation's zones need data that the program
/// does not carry (docs/internals/adr/0027).
package enum LocalTime {
    /// Seconds east of UTC at that moment; 0 where the system cannot tell.
    package static func offset(at moment: UnixTime) -> Int {
        var seconds = time_t(moment.milliseconds / 1000)
        var fields = unsafe tm()
        guard unsafe localtime_r(&seconds, &fields) != nil else { return 0 }
        return unsafe fields.tm_gmtoff
    }
}

extension String {
    package func padding(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}
