/// The fields of one HTTP/2 message, as ``FieldBlockDecoder`` writes them: the same form that the scanner of HTTP/1 makes.
///
/// Each field becomes a line of HTTP/1 in ``bytes``, once, and a ``HeadField`` with its offsets. So rules see one form, a run of lines
/// can be copied to an HTTP/1 peer, and nothing is scanned again. Pseudo-header fields are lines, too; ``pseudo`` says where their
/// values are. An event loop has one table for all its connections: what outlives the message is copied from it.
///
/// A message that breaks a rule, or exceeds a limit, is decoded to its end all the same, because the table of the connection has to
/// follow. Nothing of it is kept beyond the limit.
package struct HTTP2FieldTable: Sendable {
    package enum Message: Sendable {
        case request
        case response
        case trailers
        /// Every line is kept, whatever it says: the examples of RFC 7541 have fields that no message may have.
        case unjudged
    }

    /// Where the values of the pseudo-header fields are. They have no CR, LF or NUL and no whitespace around them; whether they are valid
    /// otherwise is for the reader of the message to judge.
    package struct Pseudo: Hashable, Sendable {
        package fileprivate(set) var method: Range<Int>?
        package fileprivate(set) var scheme: Range<Int>?
        package fileprivate(set) var authority: Range<Int>?
        package fileprivate(set) var path: Range<Int>?
        package fileprivate(set) var protocolName: Range<Int>?
        package fileprivate(set) var status: Range<Int>?
    }

    /// Lines with their CRLF. Bytes from ``end`` on are left over from other messages.
    package private(set) var bytes: [UInt8]
    package private(set) var end = 0
    /// Where the fields begin, behind the pseudo-header fields.
    package private(set) var start = 0
    package private(set) var section = FieldSection()
    package private(set) var pseudo = Pseudo()
    /// Why the stream has to be reset: the first rule that was broken.
    package private(set) var malformation: HTTP2Malformation?
    /// Why the message is refused, if it is not malformed.
    package private(set) var refusal: HeadRefusal?
    /// As SETTINGS_MAX_HEADER_LIST_SIZE counts it (RFC 9113 section 6.5.2), with all that was not kept.
    package private(set) var listSize = 0

    private var message = Message.request
    private var maxBytes = 0
    private var maxFields = 0
    /// Bytes of the head in the form of HTTP/1.
    private var size = 0
    private var hasFields = false
    private var hasCookie = false
    /// The crumbs so far, joined.
    private var cookie: [UInt8] = []
    /// The length of the name that was written behind ``end``.
    private var draftName = 0

    /// The memory that a message without extremes needs.
    private static let usualCapacity = 16_384
    /// What the form of HTTP/1 has beyond the values of pseudo-header fields: ` HTTP/1.1`, the `Host` and the empty line.
    private static let wording = 24

    package init() { bytes = [UInt8](repeating: 0, count: Self.usualCapacity) }

    /// - Parameters:
    ///   - maxBytes: Of the head in the form of HTTP/1, as for one that came by HTTP/1.
    ///   - maxFields: Crumbs of the cookie count as one field.
    package mutating func begin(_ message: Message, maxBytes: Int, maxFields: Int) {
        self.message = message
        (self.maxBytes, self.maxFields) = (maxBytes, maxFields)
        if !section.hasMemory { section = FieldSection() }
        section.begin(at: 0)
        pseudo = Pseudo()
        (malformation, refusal) = (nil, nil)
        (start, end, listSize) = (0, 0, 0)
        size = message == .trailers ? 2 : Self.wording
        (hasFields, hasCookie) = (false, false)
        cookie.removeAll(keepingCapacity: true)
        guard bytes.count > 8 * Self.usualCapacity else { return }
        // After a very large message.
        (bytes, cookie) = ([UInt8](repeating: 0, count: Self.usualCapacity), [])
    }

    /// The block is complete: writes the joined cookie, and the empty line.
    package mutating func finish() {
        if !hasFields { start = end }
        if !cookie.isEmpty, malformation == nil, refusal == nil {
            if section.fields.count < maxFields { addCookie() } else { refusal = .tooManyFields }
        }
        reserve(2)
        bytes[end] = 0x0D
        bytes[end + 1] = 0x0A
        end += 2
        checkInvariants()
    }

    private mutating func addCookie() {
        let crumbs = cookie
        unsafe crumbs.withUnsafeBytes { unsafe add("cookie", $0, .cookie) }
    }

    /// Writes a field of our own as a line.
    private mutating func add(_ name: StaticString, _ value: UnsafeRawBufferPointer, _ kind: FieldKind) {
        let nameLength = name.utf8CodeUnitCount
        let length = nameLength &+ value.count &+ FieldEntry.framing
        reserve(length &+ 2)
        name.withUTF8Buffer { unsafe copy(UnsafeRawBufferPointer($0), at: end) }
        unsafe copy(value, at: end &+ nameLength &+ 2)
        (bytes[end &+ nameLength], bytes[end &+ nameLength &+ 1]) = (0x3A, 0x20)
        (bytes[end &+ length &- 2], bytes[end &+ length &- 1]) = (0x0D, 0x0A)
        addField(nameLength: nameLength, length: length, kind, isNeverIndexed: false)
    }

    // MARK: Completing

    /// Adds a field that HTTP/2 has in another form. The message is finished.
    mutating func append(_ name: StaticString, _ value: StaticString, _ kind: FieldKind) {
        value.withUTF8Buffer { unsafe append(name, UnsafeRawBufferPointer($0), kind) }
    }

    mutating func append(_ name: StaticString, _ value: String, _ kind: FieldKind) {
        var value = value
        value.withUTF8 { unsafe append(name, UnsafeRawBufferPointer($0), kind) }
    }

    private mutating func append(_ name: StaticString, _ value: UnsafeRawBufferPointer, _ kind: FieldKind) {
        // Instead of the empty line.
        end &-= 2
        unsafe add(name, value, kind)
        (bytes[end], bytes[end &+ 1]) = (0x0D, 0x0A)
        end &+= 2
    }

    /// Adds text that no field has, behind the empty line: no lines may be added after it.
    ///
    /// - Parameter parts: Places in ``bytes`` whose text follows.
    /// - Returns: Where it stands.
    mutating func append(text: StaticString, _ parts: Range<Int>...) -> Range<Int> {
        let start = end
        reserve(text.utf8CodeUnitCount)
        text.withUTF8Buffer { unsafe copy(UnsafeRawBufferPointer($0), at: end) }
        end &+= text.utf8CodeUnitCount
        for part in parts {
            reserve(part.count)
            for index in part {
                bytes[end] = bytes[index]
                end &+= 1
            }
        }
        return start..<end
    }

    /// Gives the fields away. What comes for them may have no memory: ``begin(_:maxBytes:maxFields:)`` looks.
    mutating func swapSection(_ other: inout FieldSection) { swap(&section, &other) }

    // MARK: Writing

    /// A field of a table.
    @inline(__always)
    mutating func add(_ entry: FieldEntry, of source: [UInt8]) {
        guard counts(entry.nameLength, entry.valueLength, entry.note) else { return }
        reserve(entry.length)
        copy(source, entry.line, at: end)
        keep(Int(entry.nameLength), Int(entry.valueLength), entry.note, isNeverIndexed: false)
    }

    /// Writes the name of a field that is being read, from a table.
    mutating func draft(nameOf entry: FieldEntry, in source: [UInt8]) {
        draftName = Int(entry.nameLength)
        reserve(draftName + FieldEntry.framing)
        copy(source, entry.name, at: end)
    }

    /// Writes the name of a field that is being read.
    ///
    /// - Returns: false if its Huffman code is invalid.
    mutating func draft(name source: borrowing Span<UInt8>, isHuffman: Bool) -> Bool {
        guard let length = write(source, isHuffman: isHuffman, at: end) else { return false }
        draftName = length
        return true
    }

    /// Judges the name that was written.
    func noteOfDraft() -> FieldNote { FieldNote(bytes.span, name: end..<end &+ draftName) }

    /// Writes the value of the field that is being read.
    ///
    /// - Returns: Its length; nil if its Huffman code is invalid.
    mutating func draft(value source: borrowing Span<UInt8>, isHuffman: Bool) -> Int? {
        let start = end &+ draftName &+ 2
        guard let length = write(source, isHuffman: isHuffman, at: start) else { return nil }
        bytes[start &- 2] = 0x3A
        bytes[start &- 1] = 0x20
        bytes[start &+ length] = 0x0D
        bytes[start &+ length &+ 1] = 0x0A
        return length
    }

    func judgeDraft(_ note: FieldNote, valueLength: Int) -> FieldNote {
        let start = end &+ draftName &+ 2
        return note.judging(bytes.span, value: start..<start &+ valueLength)
    }

    /// Puts the field that was read into the table of the connection.
    func insertDraft(valueLength: Int, _ note: FieldNote, into table: inout DynamicFieldTable) {
        let line = end..<end &+ draftName &+ valueLength &+ FieldEntry.framing
        unsafe bytes.withUnsafeBytes { bytes in
            unsafe table.insert(UnsafeRawBufferPointer(rebasing: bytes[line]), nameLength: draftName, note: note)
        }
    }

    /// The field that was read becomes one of the message.
    @inline(__always)
    mutating func keepDraft(valueLength: Int, _ note: FieldNote, isNeverIndexed: Bool) {
        let length = Int32(truncatingIfNeeded: draftName)
        guard counts(length, Int32(truncatingIfNeeded: valueLength), note) else { return }
        keep(draftName, valueLength, note, isNeverIndexed: isNeverIndexed)
    }

    /// - Returns: The length; nil where the string breaks a rule of Huffman's code.
    private mutating func write(_ source: borrowing Span<UInt8>, isHuffman: Bool, at place: Int) -> Int? {
        let room = isHuffman ? HuffmanCode.room(for: source.count) : source.count
        reserve(place &- end &+ room &+ FieldEntry.framing)
        return unsafe source.withUnsafeBytes { source in
            unsafe bytes.withUnsafeMutableBytes { bytes in
                // Bounds: reserve.
                let target = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[place...])
                if isHuffman { return unsafe HuffmanCode.standard.decode(source, into: target) }
                unsafe target.copyMemory(from: source)
                return source.count
            }
        }
    }

    @inline(__always)
    private mutating func copy(_ source: [UInt8], _ range: Range<Int>, at place: Int) {
        unsafe source.withUnsafeBytes { source in
            unsafe bytes.withUnsafeMutableBytes { bytes in
                let part = unsafe UnsafeRawBufferPointer(rebasing: source[range])
                // Bounds: reserve, of all callers.
                unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[place...]).copyMemory(from: part)
            }
        }
    }

    private mutating func copy(_ source: UnsafeRawBufferPointer, at place: Int) {
        unsafe bytes.withUnsafeMutableBytes { bytes in
            // Bounds: reserve, of all callers.
            unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[place...]).copyMemory(from: source)
        }
    }

    /// Makes sure that this many bytes can be written behind ``end``.
    @inline(__always)
    private mutating func reserve(_ count: Int) {
        if end &+ count > bytes.count { grow(to: end &+ count) }
    }

    private mutating func grow(to count: Int) {
        bytes += [UInt8](repeating: 0, count: max(count, bytes.count * 2) - bytes.count)
    }

    // MARK: Rules

    /// - Returns: Whether the field is kept.
    @inline(__always)
    private mutating func counts(_ nameLength: Int32, _ valueLength: Int32, _ note: FieldNote) -> Bool {
        let length = Int(nameLength) &+ Int(valueLength)
        listSize &+= length &+ FieldEntry.overhead
        guard malformation == nil else { return false }
        switch note.use {
        case .field:
            size &+= length &+ FieldEntry.framing
            guard section.fields.count < maxFields || size > maxBytes else { return refuse(.tooManyFields, note) }
        case .cookie: size &+= Int(valueLength) &+ (hasCookie ? 2 : 10)
        case .method, .scheme, .authority, .path, .protocolName, .status: size &+= Int(valueLength)
        case .unknownPseudo: return refuse(.unknownPseudoField)
        case .invalidName: return refuse(.invalidName)
        case .connectionField: return refuse(.connectionField)
        case .invalidTE: return refuse(.invalidTE)
        case .paddedValue: return refuse(.paddedValue)
        case .invalidValue: return refuse(.invalidValue)
        case .controlByte: return message == .unjudged || refuse(.invalidFieldValue, note)
        }
        guard size <= maxBytes else { return refuse(note.use == .path ? .targetTooLong : .headTooLarge, note) }
        return refusal == nil || note.use != .field
    }

    private mutating func refuse(_ reason: HeadRefusal, _ note: FieldNote) -> Bool {
        if refusal == nil { refusal = reason }
        // A pseudo-header field that follows would be late, whether this field is kept or not.
        if !note.isPseudo { hasFields = true }
        return false
    }

    private mutating func refuse(_ reason: HTTP2Malformation) -> Bool {
        guard message != .unjudged else { return true }
        malformation = reason
        return false
    }

    /// The line stands behind ``end``.
    @inline(__always)
    private mutating func keep(_ nameLength: Int, _ valueLength: Int, _ note: FieldNote, isNeverIndexed: Bool) {
        let length = nameLength &+ valueLength &+ FieldEntry.framing
        switch note.use {
        case .field:
            if !hasFields { beginFields() }
            addField(
                nameLength: nameLength,
                length: length,
                note.kind,
                hasUnderscore: note.hasUnderscore,
                isNeverIndexed: isNeverIndexed
            )
        case .cookie:
            if !hasFields { beginFields() }
            // An empty one could leave a space at the end.
            guard valueLength > 0 else { return }
            if !cookie.isEmpty { cookie += [0x3B, 0x20] }
            let value = end &+ nameLength &+ 2
            cookie += bytes[value..<value &+ valueLength]
            hasCookie = true
        default: keepPseudo(note.use, nameLength, valueLength)
        }
    }

    private mutating func beginFields() {
        hasFields = true
        start = end
    }

    @inline(__always)
    private mutating func addField(
        nameLength: Int,
        length: Int,
        _ kind: FieldKind,
        hasUnderscore: Bool = false,
        isNeverIndexed: Bool
    ) {
        section.add(
            HeadField(
                kind: kind,
                start: UInt32(truncatingIfNeeded: end),
                nameEnd: UInt32(truncatingIfNeeded: end &+ nameLength),
                valueStart: UInt32(truncatingIfNeeded: end &+ nameLength &+ 2),
                valueEnd: UInt32(truncatingIfNeeded: end &+ length &- 2),
                end: UInt32(truncatingIfNeeded: end &+ length),
                isNeverIndexed: isNeverIndexed
            ),
            hasUnderscore: hasUnderscore
        )
        end &+= length
    }

    private mutating func keepPseudo(_ use: FieldNote.Use, _ nameLength: Int, _ valueLength: Int) {
        guard message != .unjudged else { return end &+= nameLength &+ valueLength &+ FieldEntry.framing }
        guard !hasFields else { return malformation = .latePseudoField }
        let value = end &+ nameLength &+ 2
        let isNew: Bool? =
            switch (message, use) {
            case (.request, .method): Self.set(&pseudo.method, value, valueLength)
            case (.request, .scheme): Self.set(&pseudo.scheme, value, valueLength)
            case (.request, .authority): Self.set(&pseudo.authority, value, valueLength)
            case (.request, .path): Self.set(&pseudo.path, value, valueLength)
            case (.request, .protocolName): Self.set(&pseudo.protocolName, value, valueLength)
            case (.response, .status): Self.set(&pseudo.status, value, valueLength)
            default: nil
            }
        guard let isNew else { return malformation = .unknownPseudoField }
        guard isNew else { return malformation = .duplicatePseudoField }
        end &+= nameLength &+ valueLength &+ FieldEntry.framing
    }

    private static func set(_ place: inout Range<Int>?, _ start: Int, _ length: Int) -> Bool {
        guard place == nil else { return false }
        place = start..<start &+ length
        return true
    }

    // MARK: Responses

    /// The status of a response.
    func status() throws(HTTP2Malformation) -> Int {
        if let malformation { throw malformation }
        guard let digits = pseudo.status else { throw .missingPseudoField }
        guard digits.count == 3 else { throw .invalidStatus }
        var status = 0
        for index in digits {
            guard bytes[index].isDigit else { throw .invalidStatus }
            status = status * 10 + Int(bytes[index] - 0x30)
        }
        // HTTP/2 has no Upgrade (RFC 9113 section 8.6).
        guard status != 101 else { throw .invalidStatus }
        return status
    }

    /// Why the fields behind the content of a response are malformed.
    package var malformationOfTrailers: HTTP2Malformation? {
        malformation ?? (pseudo.status == nil ? nil : .unknownPseudoField)
    }

    /// Writes `content-length: 0`, unless there is a length.
    mutating func declareEmptyContent() {
        for field in section.fields where field.kind == .contentLength { return }
        append("content-length", "0", .contentLength)
    }

    /// Makes a response that opens a WebSocket the 101 of HTTP/1. A tunnel has no content, and the client's key is not the one that
    /// the upstream was asked with.
    mutating func switchToWebSocket(accept: String) {
        let (old, fields, hadUnderscore) = (bytes, section.fields, section.hasUnderscore)
        section.begin(at: start)
        end = start
        for field in fields where field.kind != .contentLength {
            guard !old.span.equals(field.name, "sec-websocket-accept") else { continue }
            copy(old, field.line, at: end)
            addField(
                nameLength: field.name.count,
                length: field.line.count,
                field.kind,
                hasUnderscore: hadUnderscore,
                isNeverIndexed: field.isNeverIndexed
            )
        }
        (bytes[end], bytes[end + 1]) = (0x0D, 0x0A)
        end += 2
        append("connection", "Upgrade", .connection)
        append("upgrade", "websocket", .upgrade)
        append("sec-websocket-accept", accept, .other)
        for (index, digit) in zip(pseudo.status ?? 0..<0, "101".utf8) { bytes[index] = digit }
        checkInvariants()
    }

    private func checkInvariants() {
        assert(start <= end && end <= bytes.count, "The fields are not where the table has them.")
        // Those of the gateway's own are few.
        assert(section.fields.count <= maxFields + 3, "The table has more fields than it may.")
        assert(
            message == .unjudged || section.fields.last.map { Int($0.end) + 2 == end } ?? true,
            "The last field is not the last line."
        )
    }
}

/// Why a message of HTTP/2 is malformed (RFC 9113 section 8.1.1): its stream is reset, and nothing of it is forwarded.
package enum HTTP2Malformation: String, Hashable, Sendable, Error {
    case invalidName = "a field name is not a lower-case token"
    case invalidValue = "a field value has CR, LF or NUL"
    case paddedValue = "a field value begins or ends with whitespace"
    case connectionField = "a connection field of HTTP/1"
    case invalidTE = "TE is not trailers"
    case unknownPseudoField = "a pseudo-header field that this message cannot have"
    case duplicatePseudoField = "a duplicate pseudo-header field"
    case latePseudoField = "a pseudo-header field after a regular field"
    case missingPseudoField = "a pseudo-header field is missing"
    case invalidMethod = "the method is not a token"
    case invalidScheme = ":scheme is neither http nor https"
    case invalidPath = ":path is neither a path nor *"
    case unknownProtocol = ":protocol is not websocket, or not in a CONNECT"
    case invalidStatus = ":status does not have three digits"
    case hostMismatch = "Host and :authority disagree"
    case contentLengthMismatch = "Content-Length and the body disagree"
}
