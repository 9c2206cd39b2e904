import Foundation
import GRDB
import GatewayCore
import GatewayFiles

/// What a hash of the chain covers. Each value is written with its type and length, so that two different rows never have the
/// same encoding. The text "1" and the number 1 differ too.
struct ChainEncoding {
    private(set) var bytes: [UInt8] = []

    /// Keeps the memory for the next row.
    mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

    mutating func add(_ value: DatabaseValue) {
        switch value.storage {
        case .null: addNull()
        case .int64(let number): add(number)
        case .double(let number): add(number)
        case .string(let text): add(text: text.utf8)
        case .blob(let data):
            add(.blob, count: data.count)
            bytes.append(contentsOf: data)
        }
    }

    mutating func add(text: some Collection<UInt8>) {
        add(.text, count: text.count)
        bytes.append(contentsOf: text)
    }

    /// The same as the column's value, without making one.
    mutating func add(_ column: Int, of row: borrowing StatementRow) {
        let kind = row.kind(at: column)
        switch kind {
        case .null: addNull()
        case .integer: add(row.integer(at: column))
        case .real: add(row.real(at: column))
        case .text, .blob:
            row.withBytes(at: column, of: kind) { content in
                add(kind == .text ? .text : .blob, count: content.byteCount)
                unsafe content.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
            }
        }
    }

    private enum Mark: UInt8 {
        case null = 0x6E  // n
        case integer = 0x69  // i
        case real = 0x64  // d
        case text = 0x74  // t
        case blob = 0x62  // b
    }

    private mutating func addNull() {
        bytes.append(Mark.null.rawValue)
        bytes.append(Self.colon)
    }

    private mutating func add(_ number: Int64) {
        bytes.append(Mark.integer.rawValue)
        if number < 0 { bytes.append(Self.minus) }
        addDecimal(number.magnitude)
    }

    private mutating func add(_ number: Double) {
        bytes.append(Mark.real.rawValue)
        addDecimal(number.bitPattern)
    }

    private mutating func add(_ mark: Mark, count: Int) {
        bytes.append(mark.rawValue)
        addDecimal(UInt64(count))
    }

    /// Digit by digit, without a text in between: a log has millions of numbers.
    private mutating func addDecimal(_ number: UInt64) {
        var power: UInt64 = 1
        while number / power >= 10 { power *= 10 }
        while power > 0 {
            bytes.append(0x30 + UInt8(number / power % 10))
            power /= 10
        }
        bytes.append(Self.colon)
    }

    private static let colon: UInt8 = 0x3A
    private static let minus: UInt8 = 0x2D
}
