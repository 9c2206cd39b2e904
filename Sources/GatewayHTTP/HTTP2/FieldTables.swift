/// The HPACK static table (RFC 7541 appendix A).
struct StaticFieldTable: Sendable {
    static let standard = StaticFieldTable()

    /// Lines of HTTP/1, one after the other.
    let bytes: [UInt8]
    /// The field with index 1 is the first.
    let entries: [FieldEntry]

    private init() {
        var (bytes, entries) = ([UInt8](), [FieldEntry]())
        for (name, value) in Self.fields {
            let start = bytes.count
            bytes += Array("\(name): \(value)\r\n".utf8)
            let (nameEnd, end) = (start + name.utf8.count, bytes.count - 2)
            let note = FieldNote(bytes.span, name: start..<nameEnd).judging(bytes.span, value: nameEnd + 2..<end)
            entries.append(
                FieldEntry(
                    start: Int32(start),
                    nameLength: Int32(name.utf8.count),
                    valueLength: Int32(value.utf8.count),
                    note: note
                )
            )
        }
        (self.bytes, self.entries) = (bytes, entries)
    }

    static let fields: [(name: String, value: String)] = [
        (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
        (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
        (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
        ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
        ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
        ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
        ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""),
        ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""),
        ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""),
        ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""),
        ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""), ("retry-after", ""),
        ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""), ("transfer-encoding", ""),
        ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
    ]

    /// The index of the first field with this name, whose letters may be large; 0 where there is none.
    ///
    /// The length comes first, so that a name is compared with few others.
    @inline(__always)
    static func index(_ bytes: borrowing Span<UInt8>, _ name: Range<Int>) -> UInt8 {
        switch name.count {
        case 3: bytes.isToken(name, "age") ? 21 : bytes.isToken(name, "via") ? 60 : 0
        case 4:
            bytes.isToken(name, "date")
                ? 33
                : bytes.isToken(name, "etag")
                    ? 34
                    : bytes.isToken(name, "vary")
                        ? 59
                        : bytes.isToken(name, "link")
                            ? 45 : bytes.isToken(name, "host") ? 38 : bytes.isToken(name, "from") ? 37 : 0
        case 5: bytes.isToken(name, "allow") ? 22 : bytes.isToken(name, "range") ? 50 : 0
        case 6:
            bytes.isToken(name, "accept")
                ? 19
                : bytes.isToken(name, "cookie")
                    ? 32 : bytes.isToken(name, "server") ? 54 : bytes.isToken(name, "expect") ? 35 : 0
        case 7:
            bytes.isToken(name, "referer")
                ? 51 : bytes.isToken(name, "expires") ? 36 : bytes.isToken(name, "refresh") ? 52 : 0
        case 8:
            bytes.isToken(name, "location")
                ? 46 : bytes.isToken(name, "if-match") ? 39 : bytes.isToken(name, "if-range") ? 42 : 0
        case 10: bytes.isToken(name, "user-agent") ? 58 : bytes.isToken(name, "set-cookie") ? 55 : 0
        case 11: bytes.isToken(name, "retry-after") ? 53 : 0
        case 12: bytes.isToken(name, "content-type") ? 31 : bytes.isToken(name, "max-forwards") ? 47 : 0
        case 13:
            bytes.isToken(name, "cache-control")
                ? 24
                : bytes.isToken(name, "authorization")
                    ? 23
                    : bytes.isToken(name, "if-none-match")
                        ? 41
                        : bytes.isToken(name, "last-modified")
                            ? 44
                            : bytes.isToken(name, "accept-ranges") ? 18 : bytes.isToken(name, "content-range") ? 30 : 0
        case 14:
            bytes.isToken(name, "content-length") ? 28 : bytes.isToken(name, "accept-charset") ? 15 : 0
        case 15:
            bytes.isToken(name, "accept-encoding") ? 16 : bytes.isToken(name, "accept-language") ? 17 : 0
        case 16:
            bytes.isToken(name, "content-encoding")
                ? 26
                : bytes.isToken(name, "content-language")
                    ? 27
                    : bytes.isToken(name, "content-location")
                        ? 29 : bytes.isToken(name, "www-authenticate") ? 61 : 0
        case 17:
            bytes.isToken(name, "if-modified-since") ? 40 : bytes.isToken(name, "transfer-encoding") ? 57 : 0
        case 18: bytes.isToken(name, "proxy-authenticate") ? 48 : 0
        case 19:
            bytes.isToken(name, "content-disposition")
                ? 25
                : bytes.isToken(name, "if-unmodified-since")
                    ? 43 : bytes.isToken(name, "proxy-authorization") ? 49 : 0
        case 25: bytes.isToken(name, "strict-transport-security") ? 56 : 0
        case 27: bytes.isToken(name, "access-control-allow-origin") ? 20 : 0
        default: 0
        }
    }
}

/// The HPACK dynamic table of one direction, newest entry first (RFC 7541 section 2.3.2).
///
/// The entries are a ring over one store of bytes. Memory comes as it is needed: an idle connection has none. A line takes 4 bytes
/// beside its name and value where the peer counts 32, so what is remembered fits into half of the store at its largest; when the
/// end is reached, the lines that are still in use are moved to its start.
struct DynamicFieldTable: Sendable {
    /// The largest table that a peer may be allowed: lengths and places stay small.
    static let largest = 8192

    private(set) var bytes: [UInt8] = []
    private var entries: [FieldEntry] = []
    private var newest = 0
    private(set) var count = 0
    /// The end of the line that was stored last.
    private var end = 0
    /// As the peer counts (RFC 7541 section 4.1).
    private(set) var size = 0
    private(set) var limit: Int

    init(limit: Int) { self.limit = min(limit, Self.largest) }

    /// - Parameter index: 0 is the newest.
    @inline(__always)
    subscript(_ index: Int) -> FieldEntry? {
        guard index >= 0, index < count else { return nil }
        return entries[(newest &- index) & (entries.count &- 1)]
    }

    mutating func resize(to limit: Int) {
        self.limit = limit
        evict(to: limit)
        checkInvariants()
    }

    /// - Parameter line: Not in this table: its place could be the one of an entry that has to go.
    mutating func insert(_ line: UnsafeRawBufferPointer, nameLength: Int, note: FieldNote) {
        defer { checkInvariants() }
        let valueLength = line.count &- nameLength &- FieldEntry.framing
        let added = nameLength &+ valueLength &+ FieldEntry.overhead
        // An entry that is larger than the table empties it (RFC 7541 section 4.4).
        evict(to: max(0, limit &- added))
        guard added <= limit else { return }
        makeRoom(for: line.count)
        // Bounds: makeRoom.
        unsafe bytes.withUnsafeMutableBytes { store in
            guard let from = line.baseAddress, let to = store.baseAddress else { return }
            unsafe (to + end).copyMemory(from: from, byteCount: line.count)
        }
        let entry = FieldEntry(
            start: Int32(truncatingIfNeeded: end),
            nameLength: Int32(truncatingIfNeeded: nameLength),
            valueLength: Int32(truncatingIfNeeded: valueLength),
            note: note
        )
        if count == entries.count { growRing(entry) }
        newest = (newest &+ 1) & (entries.count &- 1)
        entries[newest] = entry
        count &+= 1
        size &+= added
        end &+= line.count
    }

    private mutating func evict(to size: Int) {
        while self.size > size, let oldest = self[count &- 1] {
            self.size &-= oldest.size
            count &-= 1
        }
        if count == 0 { end = 0 }
    }

    /// The ring's size is a power of 2, so that its end needs no comparison.
    private mutating func growRing(_ filler: FieldEntry) {
        var larger = [FieldEntry](repeating: filler, count: max(16, entries.count * 2))
        for index in 0..<count { larger[count - 1 - index] = self[index] ?? filler }
        (entries, newest) = (larger, count == 0 ? larger.count - 1 : count - 1)
    }

    private mutating func makeRoom(for length: Int) {
        if end &+ length <= bytes.count { return }
        if bytes.count < 2 * limit {
            var capacity = max(512, bytes.count * 2)
            while capacity < end &+ length { capacity *= 2 }
            bytes += [UInt8](repeating: 0, count: min(capacity, max(2 * limit, end &+ length)) - bytes.count)
            if end &+ length <= bytes.count { return }
        }
        var to = 0
        let mask = entries.count &- 1
        for index in stride(from: count &- 1, through: 0, by: -1) {
            let place = (newest &- index) & mask
            let line = entries[place].line
            // Bounds: the line is in the store, and moves towards its start.
            unsafe bytes.withUnsafeMutableBytes { store in
                guard let base = store.baseAddress else { return }
                unsafe (base + to).copyMemory(from: base + line.lowerBound, byteCount: line.count)
            }
            entries[place].start = Int32(truncatingIfNeeded: to)
            to &+= line.count
        }
        end = to
    }

    private func checkInvariants() {
        assert(size <= limit, "The table is larger than it may be.")
        assert(
            (0..<count).reduce(0) { $0 + (self[$1]?.size ?? 0) } == size,
            "The table's size is not that of its entries."
        )
        assert(end <= bytes.count, "A line ends behind the store.")
    }
}
