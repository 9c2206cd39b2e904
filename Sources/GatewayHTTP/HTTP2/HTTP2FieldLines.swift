/// Writes fields of HTTP/2 as lines of HTTP/1, each checked first (RFC 9113 section 8.2).
///
/// What HTTP/1 forbids beyond that is left to the decoder that reads the lines.
package struct HTTP2FieldLines: Sendable {
    package private(set) var bytes: [UInt8]
    /// Crumbs of the cookie, joined (RFC 9113 section 8.2.3).
    private var cookie: [UInt8] = []

    /// - Parameter start: What stands before the fields.
    package init(behind start: [UInt8] = []) {
        bytes = start
        bytes.reserveCapacity(start.count + 512)
    }

    /// - Returns: Why the message is malformed. The lines are of no use then.
    package mutating func add(_ name: String, _ value: String) -> HTTP2Malformation? {
        let start = bytes.count
        bytes.append(contentsOf: name.utf8)
        let nameEnd = bytes.count
        bytes.append(contentsOf: [0x3A, 0x20])
        bytes.append(contentsOf: value.utf8)
        let (name, value) = (start..<nameEnd, nameEnd + 2..<bytes.count)
        if let reason = Self.check(bytes.span, name, value) { return reason }
        if FieldKind.classify(bytes.span, name) == .cookie, name.count == "cookie".utf8.count {
            if !cookie.isEmpty { cookie.append(contentsOf: [0x3B, 0x20]) }
            cookie.append(contentsOf: bytes[value])
            bytes.removeSubrange(start...)
        } else {
            bytes.append(contentsOf: [0x0D, 0x0A])
        }
        return nil
    }

    /// - Parameter lines: Valid, each with its line end, or parts of such a line.
    package mutating func append(_ lines: some Sequence<UInt8>) { bytes.append(contentsOf: lines) }

    /// Ends the section: the joined cookie, and the empty line.
    package mutating func end() {
        if !cookie.isEmpty {
            bytes.append(contentsOf: "cookie: ".utf8)
            bytes.append(contentsOf: cookie)
            bytes.append(contentsOf: [0x0D, 0x0A])
        }
        bytes.append(contentsOf: [0x0D, 0x0A])
    }

    // MARK: Rules

    private static func check(
        _ bytes: borrowing Span<UInt8>,
        _ name: Range<Int>,
        _ value: Range<Int>
    ) -> HTTP2Malformation? {
        guard isLowercaseToken(bytes, name) else { return .invalidName }
        if let reason = check(bytes, value: value) { return reason }
        return switch FieldKind.classify(bytes, name) {
        case let kind where kind.isForbiddenInHTTP2: .connectionField
        case .te where !bytes.equalsLowercased(value, "trailers"): .invalidTE
        default: nil
        }
    }

    private static func isLowercaseToken(_ bytes: borrowing Span<UInt8>, _ name: Range<Int>) -> Bool {
        for index in name {
            guard bytes[index].isTokenByte, bytes[index].asciiLowercased == bytes[index] else { return false }
        }
        return !name.isEmpty
    }

    static func check(_ value: String) -> HTTP2Malformation? {
        var last: UInt8 = 0
        for byte in value.utf8 {
            switch byte {
            case 0x00, 0x0A, 0x0D: return .invalidValue
            default: last = byte
            }
        }
        let isPadded = value.utf8.first?.isOptionalWhitespace == true || last.isOptionalWhitespace
        return isPadded ? .paddedValue : nil
    }

    private static func check(_ bytes: borrowing Span<UInt8>, value: Range<Int>) -> HTTP2Malformation? {
        guard let first = value.first, let last = value.last else { return nil }
        if bytes[first].isOptionalWhitespace || bytes[last].isOptionalWhitespace { return .paddedValue }
        for index in value {
            switch bytes[index] {
            case 0x00, 0x0A, 0x0D: return .invalidValue
            default: break
            }
        }
        return nil
    }
}

/// Why a message of HTTP/2 is malformed (RFC 9113 section 8.1.1): its stream is reset, and nothing of it is forwarded.
package enum HTTP2Malformation: String, Hashable, Sendable, Error {
    case invalidName = "a field name is not a lower-case token"
    case invalidValue = "a field value has CR, LF or NUL"
    case paddedValue = "a field value begins or ends with whitespace"
    case connectionField = "a field that belongs to an HTTP/1 connection"
    case invalidTE = "TE is not trailers"
    case unknownPseudoField = "a pseudo-header field that this message cannot have"
    case duplicatePseudoField = "a pseudo-header field twice"
    case latePseudoField = "a pseudo-header field behind a field"
    case missingPseudoField = "a pseudo-header field is missing"
    case invalidMethod = "the method is not a token"
    case invalidScheme = ":scheme is neither http nor https"
    case invalidPath = ":path is neither a path nor *"
    case unknownProtocol = ":protocol is not websocket, or not in a CONNECT"
    case invalidStatus = ":status has not three digits"
    case hostMismatch = "Host and :authority disagree"
    case contentLengthMismatch = "Content-Length and the content disagree"
    case unfinishedTrailers = "fields behind the content do not end the stream"
}

/// Writes the fields behind the content of an HTTP/2 message as a trailer section of HTTP/1, with its empty line.
package struct HTTP2Trailers: Sendable {
    private var fields = HTTP2FieldLines()

    package init() {}

    /// - Returns: Why the message is malformed.
    package mutating func add(_ name: String, _ value: String) -> HTTP2Malformation? {
        name.utf8.first == 0x3A ? .unknownPseudoField : fields.add(name, value)
    }

    package consuming func section() -> [UInt8] {
        fields.end()
        return fields.bytes
    }
}

/// Reads the lines of HTTP/1 as fields of HTTP/2: names in lower case, without the fields of a connection (RFC 9113 section
/// 8.2.2).
package enum HTTP2Fields {
    /// - Parameters:
    ///   - bytes: Has lines from `start` on, and the empty line behind them. They are valid.
    ///   - body: `isUnique` says that the value is most likely another one in the next message: in the table that both ends share,
    ///     it would take the place of one that repeats.
    package static func read(
        _ bytes: borrowing Span<UInt8>,
        from start: Int,
        _ body: (_ name: String, _ value: String, _ isUnique: Bool) -> Void
    ) {
        var line = start
        while line < bytes.count, bytes[line] != 0x0D {
            var colon = line
            while colon < bytes.count, bytes[colon] != 0x3A { colon += 1 }
            let end = endOfLine(bytes, from: colon)
            guard colon < end else { return }
            if !FieldKind.classify(bytes, line..<colon).isForbiddenInHTTP2 {
                let value = text(bytes, bytes.trimmed(colon + 1..<end))
                body(bytes.lowercasedString(line..<colon), value, isUnique(bytes, line..<colon))
            }
            line = end + 2
        }
    }

    /// The first line's end, behind its CRLF: where the fields begin.
    package static func start(_ bytes: borrowing Span<UInt8>) -> Int { endOfLine(bytes, from: 0) + 2 }

    private static func endOfLine(_ bytes: borrowing Span<UInt8>, from start: Int) -> Int {
        var end = start
        while end < bytes.count, bytes[end] != 0x0D { end += 1 }
        return end
    }

    /// Whether the name is one that other encoders leave out of the table, too.
    private static func isUnique(_ bytes: borrowing Span<UInt8>, _ name: Range<Int>) -> Bool {
        switch name.count {
        case 3: bytes.isToken(name, "age")
        case 4: bytes.isToken(name, "etag")
        case 8: bytes.isToken(name, "location")
        case 11: bytes.isToken(name, "traceparent")
        case 12: bytes.isToken(name, "x-request-id")
        case 13:
            bytes.isToken(name, "last-modified") || bytes.isToken(name, "if-none-match")
                || bytes.isToken(name, "content-range")
        case 14: bytes.isToken(name, "content-length")
        case 17: bytes.isToken(name, "if-modified-since")
        case 18: bytes.isToken(name, "gateway-request-id")
        default: false
        }
    }

    /// The library takes text alone, so a value that is not UTF-8 is read as ISO 8859-1 (RFC 9110 section 5.5).
    private static func text(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> String {
        for index in range where bytes[index] >= 0x80 { return foreignText(bytes.array(range)) }
        return bytes.string(range)
    }

    private static func foreignText(_ value: [UInt8]) -> String {
        String(validating: value, as: UTF8.self)
            ?? String(String.UnicodeScalarView(value.map { Unicode.Scalar($0) }))
    }
}

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
    /// The longest code of a byte, in bytes: it has 30 bits.
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

    /// The length of a byte's code in bits (RFC 7541 appendix B). Beyond printable ASCII, that of the longest code is taken.
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
