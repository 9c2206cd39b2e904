/// Decodes the field blocks of one direction of a connection, and keeps the table that its peer builds with them (RFC 7541).
///
/// It lives as long as the connection, and has to see each block, in order: a fault leaves both ends with different tables, so the
/// connection cannot go on.
package struct FieldBlockDecoder: Sendable {
    /// The table that both ends begin with (RFC 9113 section 6.5.2).
    package static let initialTableSize = 4096
    /// What a block may stand for where the limit of a head is low. Fields beyond the limit are not kept, but the work has a bound too.
    private static let leastExpansion = 1 << 20

    /// Asked for once: a table that all share is behind a lock.
    private let standard = StaticFieldTable.standard
    private var table: DynamicFieldTable
    /// What we have told the peer (SETTINGS_HEADER_TABLE_SIZE).
    private let maximumTableSize: Int

    package init(tableSize: Int = initialTableSize) {
        maximumTableSize = min(tableSize, DynamicFieldTable.largest)
        table = DynamicFieldTable(limit: maximumTableSize)
    }

    /// What the peer has had remembered, the newest first, and its size as the peer counts it. For tests.
    var remembered: (lines: [String], size: Int) {
        let lines = (0..<table.count).compactMap { table[$0].map { table.bytes.span.string($0.line) } }
        return (lines, table.size)
    }

    /// Decodes a whole block.
    ///
    /// - Parameters:
    ///   - fields: Begun; this ends them.
    ///   - maxBytes: That of the head. The block may stand for several times as much before the connection ends.
    package mutating func decode(
        _ block: borrowing Span<UInt8>,
        into fields: inout HTTP2FieldTable,
        maxBytes: Int
    ) throws(HTTP2Fault) {
        let expansion = max(4 * maxBytes, Self.leastExpansion)
        var reader = FieldBlockReader(end: block.count)
        try changeTableSize(block, &reader)
        while reader.position < reader.end {
            let byte = block[reader.position]
            if byte & 0x80 != 0 {
                try addIndexed(try reader.integer(block, mask: 0x7F), to: &fields)
            } else if byte & 0x40 != 0 {
                let note = try draft(block, &reader, mask: 0x3F, &fields)
                fields.insertDraft(valueLength: note.valueLength, note.note, into: &table)
                fields.keepDraft(valueLength: note.valueLength, note.note, isNeverIndexed: false)
            } else {
                guard byte & 0x20 == 0 else { throw .invalidTableSize }
                let note = try draft(block, &reader, mask: 0x0F, &fields)
                fields.keepDraft(valueLength: note.valueLength, note.note, isNeverIndexed: byte & 0x10 != 0)
            }
            guard fields.listSize <= expansion else { throw .expandingBlock }
        }
        fields.finish()
    }

    /// New sizes stand before the first field, and there are at most two: the smallest that there was, and the last (RFC 7541
    /// section 4.2).
    private mutating func changeTableSize(_ block: borrowing Span<UInt8>, _ reader: inout FieldBlockReader)
        throws(HTTP2Fault)
    {
        var changes = 0
        while reader.position < reader.end, block[reader.position] & 0xE0 == 0x20 {
            let size = try reader.integer(block, mask: 0x1F)
            changes += 1
            guard size <= maximumTableSize, changes <= 2 else { throw .invalidTableSize }
            table.resize(to: size)
        }
    }

    @inline(__always)
    private func addIndexed(_ index: Int, to fields: inout HTTP2FieldTable) throws(HTTP2Fault) {
        if index <= standard.entries.count {
            guard index > 0 else { throw .invalidIndex }
            fields.add(standard.entries[index &- 1], of: standard.bytes)
        } else {
            guard let entry = table[index &- standard.entries.count &- 1] else { throw .invalidIndex }
            fields.add(entry, of: table.bytes)
        }
    }

    /// Reads a field that is spelled out, at least its value.
    private func draft(
        _ block: borrowing Span<UInt8>,
        _ reader: inout FieldBlockReader,
        mask: UInt8,
        _ fields: inout HTTP2FieldTable
    ) throws(HTTP2Fault) -> (valueLength: Int, note: FieldNote) {
        let index = try reader.integer(block, mask: mask)
        var note: FieldNote
        if index == 0 {
            let (range, isHuffman) = try reader.string(block)
            guard fields.draft(name: block.extracting(range), isHuffman: isHuffman) else { throw .invalidHuffman }
            note = fields.noteOfDraft()
        } else if index <= standard.entries.count {
            let entry = standard.entries[index &- 1]
            fields.draft(nameOf: entry, in: standard.bytes)
            note = entry.note
        } else {
            guard let entry = table[index &- standard.entries.count &- 1] else { throw .invalidIndex }
            fields.draft(nameOf: entry, in: table.bytes)
            note = entry.note.hidesName ? fields.noteOfDraft() : entry.note
        }
        let (range, isHuffman) = try reader.string(block)
        guard let length = fields.draft(value: block.extracting(range), isHuffman: isHuffman) else {
            throw .invalidHuffman
        }
        return (length, fields.judgeDraft(note, valueLength: length))
    }
}

/// Reads the primitives of field blocks (RFC 7541 section 5).
struct FieldBlockReader {
    private(set) var position = 0
    let end: Int

    init(end: Int) { self.end = end }

    /// - Parameter mask: The bits of the first byte that belong to the number. There is a first byte.
    @inline(__always)
    mutating func integer(_ block: borrowing Span<UInt8>, mask: UInt8) throws(HTTP2Fault) -> Int {
        let first = block[position] & mask
        position &+= 1
        return first < mask ? Int(first) : try rest(block, Int(mask))
    }

    /// At most four bytes follow: no length and no index needs more.
    private mutating func rest(_ block: borrowing Span<UInt8>, _ first: Int) throws(HTTP2Fault) -> Int {
        var value = first
        for shift in stride(from: 0, through: 21, by: 7) {
            guard position < end else { throw .truncatedBlock }
            let byte = block[position]
            position &+= 1
            value &+= Int(byte & 0x7F) << shift
            if byte & 0x80 == 0 { return value }
        }
        throw .largeInteger
    }

    @inline(__always)
    mutating func string(
        _ block: borrowing Span<UInt8>
    ) throws(HTTP2Fault) -> (range: Range<Int>, isHuffman: Bool) {
        guard position < end else { throw .truncatedBlock }
        let isHuffman = block[position] & 0x80 != 0
        let length = try integer(block, mask: 0x7F)
        guard length <= end &- position else { throw .truncatedBlock }
        defer { position &+= length }
        return (position..<position &+ length, isHuffman)
    }
}
