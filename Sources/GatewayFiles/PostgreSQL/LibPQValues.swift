import CPostgreSQL

/// Values in memory of their own, as libpq takes them: each null-terminated, nil as a null pointer.
@safe
final class CTexts {
    private let buffers: [UnsafeMutableBufferPointer<CChar>?]
    /// Valid as long as this object.
    let pointers: UnsafeMutablePointer<UnsafePointer<CChar>?>

    init(_ values: [[UInt8]?]) {
        unsafe buffers = values.map { value in
            guard let value else { return nil }
            let buffer = UnsafeMutableBufferPointer<CChar>.allocate(capacity: value.count + 1)
            _ = unsafe buffer.initialize(from: value.map { CChar(bitPattern: $0) } + [0])
            return unsafe buffer
        }
        // One more than there are values, so that it always has an address.
        unsafe pointers = .allocate(capacity: values.count + 1)
        unsafe pointers.initialize(repeating: nil, count: values.count + 1)
        for index in values.indices {
            unsafe pointers[index] = unsafe buffers[index].flatMap { unsafe UnsafePointer($0.baseAddress) }
        }
    }

    deinit {
        unsafe buffers.forEach { unsafe $0?.deallocate() }
        unsafe pointers.deallocate()
    }
}

extension PostgreSQLStatement.Parameter {
    var encoded: [UInt8]? {
        switch self {
        case .null: nil
        case .text(let text): Array(text.utf8)
        case .integer(let number): Array(String(number).utf8)
        case .bytes(let bytes): bytes
        }
    }

    var isBinary: Bool { if case .bytes = self { true } else { false } }
}

/// Reads a result in binary format (PostgreSQL documentation, chapter 55: the formats are those of each type's `send`).
@safe
struct LibPQResult {
    private let result: OpaquePointer

    init(_ result: OpaquePointer) { unsafe self.result = unsafe result }

    var rows: [PostgreSQLRow] {
        let columns = unsafe pq_nfields(result)
        return (0..<(unsafe pq_ntuples(result))).map { row in
            PostgreSQLRow(values: (0..<columns).map { value(row, $0) })
        }
    }

    private func value(_ row: Int32, _ column: Int32) -> PostgreSQLRow.Value {
        guard unsafe pq_getisnull(result, row, column) == 0 else { return .null }
        let count = Int(unsafe pq_getlength(result, row, column))
        let start = unsafe UnsafeRawPointer(pq_getvalue(result, row, column))
        let bytes = unsafe Array(UnsafeRawBufferPointer(start: start, count: count))
        // The numbers are those of pg_type: bool, bytea, int8, int4.
        switch unsafe pq_ftype(result, column) {
        case 16: return .boolean(bytes.first == 1)
        case 17: return .bytes(bytes)
        case 20 where count == 8: return .integer(Int64(bitPattern: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }))
        case 23 where count == 4:
            return .integer(Int64(Int32(bitPattern: bytes.reduce(UInt32(0)) { $0 << 8 | UInt32($1) })))
        default: return .text(String(decoding: bytes, as: UTF8.self))
        }
    }
}
