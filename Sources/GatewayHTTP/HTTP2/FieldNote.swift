/// What a field of HTTP/2 is, found from its name and value alone: it holds for each message that the field comes in.
///
/// So an entry of a table carries it, and a field that comes as an index is not looked at again. What depends on the message (order,
/// duplicates, where a field may stand) is judged at each use, by ``HTTP2FieldTable``.
struct FieldNote: Hashable, Sendable {
    enum Use: UInt8, Sendable {
        case field
        /// It may come in crumbs, which are joined (RFC 9113 section 8.2.3).
        case cookie
        case method
        case scheme
        case authority
        case path
        case protocolName
        case status
        // Faults of the name.
        case unknownPseudo
        case invalidName
        case connectionField
        // Faults of the value.
        case invalidTE
        case paddedValue
        case invalidValue
        case controlByte
    }

    let kind: FieldKind
    let use: Use
    /// An underscore is in the name.
    let hasUnderscore: Bool

    /// Judges a name alone (RFC 9113 sections 8.2 and 8.3).
    init(_ bytes: borrowing Span<UInt8>, name: Range<Int>) {
        guard let first = name.first else {
            (kind, use, hasUnderscore) = (.other, .invalidName, false)
            return
        }
        guard bytes[first] != 0x3A else {
            (kind, use, hasUnderscore) = (.other, Self.pseudo(bytes, name), false)
            return
        }
        var hasUnderscore = false
        let isToken = bytes.endOfToken(in: name, hasUnderscore: &hasUnderscore) == name.upperBound
        self.hasUnderscore = hasUnderscore
        guard isToken, !bytes.hasCapital(in: name) else {
            (kind, use) = (.other, .invalidName)
            return
        }
        kind = FieldKind.classify(bytes, name)
        use = kind.isForbiddenInHTTP2 ? .connectionField : kind == .cookie && name.count == 6 ? .cookie : .field
    }

    private init(_ kind: FieldKind, _ use: Use, hasUnderscore: Bool) {
        (self.kind, self.use, self.hasUnderscore) = (kind, use, hasUnderscore)
    }

    /// The note for the name with this value. A fault of the name stays.
    func judging(_ bytes: borrowing Span<UInt8>, value: Range<Int>) -> FieldNote {
        switch use {
        case .unknownPseudo, .invalidName, .connectionField: return self
        default: break
        }
        guard let first = value.first, let last = value.last else {
            return kind == .te ? FieldNote(kind, .invalidTE, hasUnderscore: hasUnderscore) : self
        }
        var fault: Use? =
            if bytes[first].isOptionalWhitespace || bytes[last].isOptionalWhitespace {
                .paddedValue
            } else {
                Self.controlFault(bytes.extracting(value))
                    ?? (kind == .te && !bytes.equalsLowercased(value, "trailers") ? .invalidTE : nil)
            }
        // The grammars of pseudo-header fields have no such bytes, and their readers say what is wrong.
        if fault == .controlByte, isPseudo { fault = nil }
        return fault.map { FieldNote(kind, $0, hasUnderscore: hasUnderscore) } ?? self
    }

    /// A valid pseudo-header field, so far as name and value say.
    var isPseudo: Bool {
        switch use {
        case .method, .scheme, .authority, .path, .protocolName, .status: true
        default: false
        }
    }

    /// A faulty value has replaced the judgement of the name.
    var hidesName: Bool {
        switch use {
        case .invalidTE, .paddedValue, .invalidValue, .controlByte: true
        default: false
        }
    }

    private static func pseudo(_ bytes: borrowing Span<UInt8>, _ name: Range<Int>) -> Use {
        switch name.count {
        case 5: bytes.equals(name, ":path") ? .path : .unknownPseudo
        case 7:
            bytes.equals(name, ":method")
                ? .method
                : bytes.equals(name, ":scheme") ? .scheme : bytes.equals(name, ":status") ? .status : .unknownPseudo
        case 9: bytes.equals(name, ":protocol") ? .protocolName : .unknownPseudo
        case 10: bytes.equals(name, ":authority") ? .authority : .unknownPseudo
        default: .unknownPseudo
        }
    }

    /// CR, LF and NUL break the message. Other control bytes are for HTTP/1 as HTTP/2 to refuse (RFC 9110 section 5.5).
    private static func controlFault(_ value: borrowing Span<UInt8>) -> Use? {
        var (position, fault) = (value.firstControlByte(from: 0), Use?.none)
        while position < value.count {
            switch value[position] {
            case 0x00, 0x0A, 0x0D: return .invalidValue
            case 0x09: break
            default: fault = .controlByte
            }
            position = value.firstControlByte(from: position &+ 1)
        }
        return fault
    }
}

extension Span<UInt8> {
    fileprivate func hasCapital(in range: Range<Int>) -> Bool {
        for index in range where self[index] &- 0x41 < 26 { return true }
        return false
    }
}

/// A field of a table, as a line of HTTP/1 in the bytes of that table: `name: value`, and CRLF.
struct FieldEntry: Hashable, Sendable {
    /// What a line has besides its name and value.
    static let framing = 4
    /// What each entry counts beyond its name and value (RFC 7541 section 4.1).
    static let overhead = 32

    var start: Int32
    let nameLength: Int32
    let valueLength: Int32
    let note: FieldNote

    var length: Int { Int(nameLength) &+ Int(valueLength) &+ Self.framing }
    var size: Int { Int(nameLength) &+ Int(valueLength) &+ Self.overhead }
    var line: Range<Int> { Int(start)..<Int(start) &+ length }
    var name: Range<Int> { Int(start)..<Int(start &+ nameLength) }
}
