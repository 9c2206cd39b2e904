/// Reads a message of Protocol Buffers field by field (protobuf.dev, "Encoding"), from bytes that were not checked before.
///
/// It allocates nothing: a field is a number, or a range of the bytes. Groups, which proto3 does not have, are malformed.
package struct ProtobufReader: Sendable {
    /// The bytes are not a message of Protocol Buffers.
    package struct Malformed: Error, Hashable, Sendable {}

    package enum Value: Hashable, Sendable {
        case number(UInt64)
        /// A text, bytes or a message.
        case bytes(Range<Int>)
        /// A number of 32 or 64 bits, which no message here has.
        case fixed
    }

    package struct Field: Hashable, Sendable {
        package let number: Int
        package let value: Value
    }

    private var position: Int
    private let end: Int

    /// - Parameter range: The range of the message within the bytes.
    package init(_ range: Range<Int>) {
        position = range.lowerBound
        end = range.upperBound
    }

    /// - Returns: nil at the end of the message.
    package mutating func next(in bytes: borrowing Span<UInt8>) throws(Malformed) -> Field? {
        guard position < end else { return nil }
        let key = try varint(bytes)
        guard let number = Int(exactly: key >> 3), (1..<1 << 29).contains(number) else { throw Malformed() }
        switch key & 7 {
        case 0: return Field(number: number, value: .number(try varint(bytes)))
        case 1:
            try skip(8)
            return Field(number: number, value: .fixed)
        case 2:
            guard let count = Int(exactly: try varint(bytes)) else { throw Malformed() }
            let start = position
            try skip(count)
            return Field(number: number, value: .bytes(start..<position))
        case 5:
            try skip(4)
            return Field(number: number, value: .fixed)
        default: throw Malformed()
        }
    }

    private mutating func skip(_ count: Int) throws(Malformed) {
        guard count <= end - position else { throw Malformed() }
        position += count
    }

    /// At most ten bytes, of which the last one holds one bit.
    private mutating func varint(_ bytes: borrowing Span<UInt8>) throws(Malformed) -> UInt64 {
        var (value, shift) = (UInt64(0), UInt64(0))
        while position < end, shift < 64 {
            let byte = bytes[position]
            position += 1
            guard shift < 63 || byte <= 1 else { throw Malformed() }
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift += 7
        }
        throw Malformed()
    }
}

/// Writes a message of Protocol Buffers. Fields that have the default of proto3 are left to the caller.
package struct ProtobufWriter: Sendable {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package mutating func add(_ number: Int, _ value: UInt64) {
        varint(UInt64(number) << 3)
        varint(value)
    }

    package mutating func add(_ number: Int, _ content: some Collection<UInt8>) {
        varint(UInt64(number) << 3 | 2)
        varint(UInt64(content.count))
        bytes.append(contentsOf: content)
    }

    package mutating func add(_ number: Int, _ text: String) { add(number, text.utf8) }

    package mutating func add(_ number: Int, _ write: (inout ProtobufWriter) -> Void) {
        var message = ProtobufWriter()
        write(&message)
        add(number, message.bytes)
    }

    private mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }
}
