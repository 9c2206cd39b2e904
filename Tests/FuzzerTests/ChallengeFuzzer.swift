import GatewayHTTP
import GatewayProxy

/// A `WWW-Authenticate` value is read as RFC 9110 section 11.6.1 says, and what was read can be written and read again.
func fuzzChallenge(_ bytes: [UInt8]) {
    // A line feed stands between two fields.
    let values = bytes.split(separator: 0x0A, maxSplits: 1, omittingEmptySubsequences: false).map(Array.init)
    for value in values {
        let challenges = AuthChallenge.list(value)
        precondition(challenges == AuthChallenge.list(value))
        precondition(AuthChallenge.list(written(challenges)) == challenges)
        if let expected = SimpleReader.challenges(value) {
            precondition(challenges == expected)
            checkRejection(value, expected)
        }
    }
    // RFC 9110 section 5.3: several fields mean the same as one whose value joins theirs with commas.
    guard values.count == 2, let first = SimpleReader.challenges(values[0]),
        let second = SimpleReader.challenges(values[1])
    else { return }
    precondition(AuthChallenge.list(values[0] + Array(", ".utf8) + values[1]) == first + second)
}

/// Challenges as a server would write them, each value in quotes.
private func written(_ challenges: [AuthChallenge]) -> [UInt8] {
    var text: [UInt8] = []
    for challenge in challenges {
        text += (text.isEmpty ? "" : ", ").utf8
        text += challenge.scheme.utf8
        for (index, parameter) in challenge.parameters.sorted(by: { $0.key < $1.key }).enumerated() {
            text += "\(index == 0 ? " " : ", ")\(parameter.key)=\"".utf8
            for byte in parameter.value.utf8 { text += byte == 0x22 || byte == 0x5C ? [0x5C, byte] : [byte] }
            text.append(0x22)
        }
    }
    return text
}

/// Whether a token is renewed depends on the first `error` of the field.
private func checkRejection(_ value: [UInt8], _ challenges: [AuthChallenge]) {
    let codes = challenges.compactMap { $0.parameters["error"] }
    guard codes.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(\.isTokenByte) }) else { return }
    let head = Array("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: ".utf8) + value + Array("\r\n\r\n".utf8)
    var decoder = ResponseHeadDecoder(maxBytes: 1 << 16, maxFields: 16)
    guard case .head = decoder.decode(head.span, answersHead: false) else { return }
    let expected = codes.first.map { $0.lowercased() == "invalid_token" } ?? true
    precondition(TokenRejection.isRejection(decoder.head, head.span) == expected)
}

/// The grammar of the field, slowly: cut at the commas that stand outside of quotes, then each piece by itself.
private enum SimpleReader {
    /// nil for what the grammar does not allow; the gateway's own reader is more lenient.
    static func challenges(_ value: [UInt8]) -> [AuthChallenge]? {
        guard let pieces = pieces(value) else { return nil }
        var challenges: [AuthChallenge] = []
        for piece in pieces where !piece.isEmpty {
            if let (name, value) = parameter(piece) {
                guard let last = challenges.indices.last else { return nil }
                if challenges[last].parameters[name] == nil { challenges[last].parameters[name] = value }
                continue
            }
            guard let (scheme, rest) = scheme(piece) else { return nil }
            challenges.append(AuthChallenge(scheme: scheme))
            if rest.isEmpty || isToken68(rest) { continue }
            guard let (name, value) = parameter(rest) else { return nil }
            challenges[challenges.count - 1].parameters[name] = value
        }
        return challenges
    }

    /// What stands between the commas, without the blanks around it; nil where a quote is not closed.
    private static func pieces(_ value: [UInt8]) -> [[UInt8]]? {
        var pieces: [[UInt8]] = [[]]
        var (isQuoted, isEscaped) = (false, false)
        for byte in value {
            if byte == 0x2C, !isQuoted {
                pieces.append([])
                continue
            }
            pieces[pieces.count - 1].append(byte)
            if isEscaped {
                isEscaped = false
            } else if byte == 0x22 {
                isQuoted.toggle()
            } else if byte == 0x5C, isQuoted {
                isEscaped = true
            }
        }
        return isQuoted ? nil : pieces.map(trimmed)
    }

    private static func trimmed(_ bytes: some Collection<UInt8>) -> [UInt8] {
        let isBlank = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
        return Array(bytes.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
    }

    private static func scheme(_ piece: [UInt8]) -> (name: String, rest: [UInt8])? {
        let name = piece.prefix { isTokenCharacter($0) }
        let rest = piece.dropFirst(name.count)
        guard !name.isEmpty, rest.isEmpty || rest.first == 0x20 || rest.first == 0x09 else { return nil }
        return (text(name).lowercased(), trimmed(rest))
    }

    private static func parameter(_ piece: [UInt8]) -> (String, String)? {
        guard let sign = piece.firstIndex(of: 0x3D) else { return nil }
        let name = trimmed(piece[..<sign])
        let value = trimmed(piece[(sign + 1)...])
        guard !name.isEmpty, name.allSatisfy(isTokenCharacter), !value.isEmpty else { return nil }
        if value.allSatisfy(isTokenCharacter) { return (text(name).lowercased(), text(value)) }
        guard let content = unquoted(value) else { return nil }
        return (text(name).lowercased(), text(content))
    }

    private static func unquoted(_ value: [UInt8]) -> [UInt8]? {
        guard value.count >= 2, value.first == 0x22 else { return nil }
        var content: [UInt8] = []
        var index = 1
        while index < value.count {
            if value[index] == 0x22 { return index == value.count - 1 ? content : nil }
            if value[index] == 0x5C { index += 1 }
            guard index < value.count else { return nil }
            content.append(value[index])
            index += 1
        }
        return nil
    }

    private static func isToken68(_ bytes: [UInt8]) -> Bool {
        let characters = bytes.prefix { isTokenCharacter($0) || $0 == 0x2F }
        return !characters.isEmpty && characters.allSatisfy { isAlphanumeric($0) || "-._~+/".utf8.contains($0) }
            && bytes.dropFirst(characters.count).allSatisfy { $0 == 0x3D }
    }

    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        isAlphanumeric(byte) || "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
    }

    private static func text(_ bytes: some Collection<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
}
