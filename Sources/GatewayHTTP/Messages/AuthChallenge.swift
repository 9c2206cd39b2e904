/// One challenge of a `WWW-Authenticate` field (RFC 9110 §11.6.1).
package struct AuthChallenge: Hashable, Sendable {
    /// Lower case: `basic`.
    package let scheme: String
    /// Names in lower case; a `token68` is left out.
    package var parameters: [String: String] = [:]

    package init(scheme: String, parameters: [String: String] = [:]) {
        self.scheme = scheme
        self.parameters = parameters
    }

    /// Every challenge of an answer, in order.
    package static func all(in head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> [AuthChallenge] {
        var challenges: [AuthChallenge] = []
        for field in head.fields where field.kind == .wwwAuthenticate {
            challenges += list(bytes.array(field.value))
        }
        return challenges
    }

    /// The challenges of one field value, up to what cannot be read.
    ///
    /// A field may hold several: a comma stands between challenges as well as between the parameters of one.
    package static func list(_ value: [UInt8]) -> [AuthChallenge] {
        var reader = ChallengeReader(value)
        return reader.read()
    }

    /// A challenge and where it stands in the field value, without the commas around it.
    struct Placed {
        let challenge: AuthChallenge
        let range: Range<Int>
    }

    /// The challenges of one field value; nil if a part of it cannot be read.
    static func placed(_ value: [UInt8]) -> [Placed]? {
        var reader = ChallengeReader(value)
        let challenges = reader.read()
        guard reader.isWellFormed else { return nil }
        return zip(challenges, reader.ranges).map { Placed(challenge: $0, range: $1) }
    }

    /// Every scheme that some reader could find in one field value, in lower case.
    ///
    /// What cannot be read is passed over.
    static func possibleSchemes(in value: [UInt8]) -> [String] {
        var reader = ChallengeReader(value, isLenient: true)
        return reader.read().map(\.scheme)
    }

    /// The first `error` of one field value, in lower case (RFC 6750 section 3).
    ///
    /// Also of a value that is not well formed: what cannot be read is passed over, and no scheme has to stand before.
    package static func errorCode(in value: [UInt8]) -> String? {
        var reader = ChallengeReader(value, isLenient: true)
        guard let error = reader.read().lazy.compactMap({ $0.parameters["error"] }).first else { return nil }
        let code = error.utf8.drop(while: \.isOptionalWhitespace).prefix(while: \.isTokenByte)
        return String(decoding: code, as: UTF8.self).lowercased()
    }
}

private struct ChallengeReader {
    private let bytes: [UInt8]
    /// Passes over what it cannot read instead of ending there.
    private let isLenient: Bool
    private var position = 0
    /// Of the challenges that were read.
    private(set) var ranges: [Range<Int>] = []
    /// The value was read to its end.
    private(set) var isWellFormed = false

    init(_ bytes: [UInt8], isLenient: Bool = false) {
        self.bytes = bytes
        self.isLenient = isLenient
    }

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    mutating func read() -> [AuthChallenge] {
        var challenges: [AuthChallenge] = []
        while true {
            skip(Self.isSeparator)
            let start = position
            guard let name = token() else {
                isWellFormed = next == nil
                guard isLenient, !isWellFormed else { return challenges }
                skipToSeparator()
                continue
            }
            let afterName = position
            skip(\.isOptionalWhitespace)
            if next == UInt8(ascii: "=") {
                if isLenient, challenges.isEmpty { add(AuthChallenge(scheme: ""), at: start, to: &challenges) }
                guard let last = challenges.indices.last, let value = parameterValue() else { return challenges }
                // The first of a name counts: a repetition must not change what was said.
                if challenges[last].parameters[name] == nil { challenges[last].parameters[name] = value }
            } else {
                add(AuthChallenge(scheme: name), at: start, to: &challenges)
                position = afterName
                skipToken68()
            }
            if let last = ranges.indices.last { ranges[last] = ranges[last].lowerBound..<position }
        }
    }

    private mutating func add(_ challenge: AuthChallenge, at start: Int, to challenges: inout [AuthChallenge]) {
        challenges.append(challenge)
        ranges.append(start..<position)
    }

    private mutating func skip(_ isSkipped: (UInt8) -> Bool) {
        while let next, isSkipped(next) { position += 1 }
    }

    private static func isSeparator(_ byte: UInt8) -> Bool { byte.isOptionalWhitespace || byte == UInt8(ascii: ",") }

    /// To the next separator outside of quotes.
    private mutating func skipToSeparator() {
        while let next, !Self.isSeparator(next) {
            if next == UInt8(ascii: "\"") { _ = quotedString() } else { position += 1 }
        }
    }

    private mutating func token() -> String? {
        let start = position
        skip(\.isTokenByte)
        return position == start ? nil : String(decoding: bytes[start..<position], as: UTF8.self).lowercased()
    }

    /// Behind a parameter's name: `=`, and a token or a quoted string.
    private mutating func parameterValue() -> String? {
        position += 1
        skip(\.isOptionalWhitespace)
        guard next != UInt8(ascii: "\"") else { return quotedString() }
        let start = position
        skip(\.isTokenByte)
        return position == start && !isLenient ? nil : String(decoding: bytes[start..<position], as: UTF8.self)
    }

    private mutating func quotedString() -> String? {
        position += 1
        var content: [UInt8] = []
        while let byte = next {
            position += 1
            if byte == UInt8(ascii: "\"") { return String(decoding: content, as: UTF8.self) }
            if byte == UInt8(ascii: "\\"), let quoted = next {
                content.append(quoted)
                position += 1
            } else {
                content.append(byte)
            }
        }
        return isLenient ? String(decoding: content, as: UTF8.self) : nil
    }

    /// `Negotiate YII…==`: characters of base 64 up to the next comma.
    private mutating func skipToken68() {
        let start = position
        skip(\.isOptionalWhitespace)
        let first = position
        skip { $0.isTokenByte || $0 == UInt8(ascii: "/") }
        skip { $0 == UInt8(ascii: "=") }
        let end = position
        skip(\.isOptionalWhitespace)
        guard end > first, next == nil || next == UInt8(ascii: ",") else { return position = start }
    }
}
