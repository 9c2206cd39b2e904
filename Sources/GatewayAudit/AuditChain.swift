import Crypto
import Foundation
import GRDB
import GatewayFiles
import GatewayHTTP

/// Links rows so that none can be edited, removed, inserted or moved without the key.
///
/// hash = HMAC-SHA256(key, domain, previous hash, every column), see ``ChainEncoding``.
struct AuditChain: Sendable {
    static let genesis = String(repeating: "0", count: 64)

    enum Domain: String {
        case event = "token_events"
        case checkpoint = "audit_checkpoints"
        case head
        case keyCheck = "key_check"
    }

    private let key: SymmetricKey

    init(key: SymmetricKey) { self.key = key }

    /// - Parameter columns: All columns of a row of `token_events` except the two hashes, in the order of the table.
    func hash(ofEvent columns: [DatabaseValue], after previous: String) -> String {
        hash(.event, [previous.databaseValue] + columns)
    }

    func hash(ofCheckpoint columns: [DatabaseValue], after previous: String) -> String {
        hash(.checkpoint, [previous.databaseValue] + columns)
    }

    /// Authenticates the exported head.
    func hash(ofHead id: Int64, _ hash: String) -> String {
        self.hash(.head, [id.databaseValue, hash.databaseValue])
    }

    /// Tells a log of another installation from one that was changed.
    var keyCheck: String { hash(.keyCheck, []) }

    /// The code of no value yet; add those that belong to the domain.
    func code(for domain: Domain) -> HMAC<SHA256> {
        var code = HMAC<SHA256>(key: key)
        code.update(data: Array("authgateway audit 1 \(domain.rawValue)\n".utf8))
        return code
    }

    private func hash(_ domain: Domain, _ values: [DatabaseValue]) -> String {
        var encoding = ChainEncoding()
        for value in values { encoding.add(value) }
        var code = code(for: domain)
        code.update(data: encoding.bytes)
        return Hexadecimal.text(of: code.finalize())
    }
}

/// Follows the chain from row to row, and stops at the first one that does not fit.
struct ChainWalk {
    /// A row that fits, and what the next one is linked to.
    struct Position: Equatable {
        var id: Int64
        var hash: String
    }

    private(set) var id: Int64
    private var link: ChainLink

    init(after position: Position, chain: AuditChain) {
        id = position.id
        link = ChainLink(.event, columns: AuditSchema.columns.count, after: position.hash, chain: chain)
    }

    var position: Position { Position(id: id, hash: link.previous) }

    /// - Parameter row: ``AuditSchema/allColumns`` of the next row, in the order of the ids.
    mutating func step(to row: borrowing StatementRow) throws(AuditVerifier.Found) {
        let expected = id &+ 1
        guard row.kind(at: 0) == .integer else { throw .init(.changed, row: expected, "a row has no number") }
        let found = row.integer(at: 0)
        guard found >= expected else {
            throw .init(.moved, row: found, "row \(found) comes before the first row, \(expected)")
        }
        guard found == expected else {
            let range = found == expected &+ 1 ? "row \(expected) is" : "rows \(expected) to \(found - 1) are"
            throw .init(.missing, row: expected, "\(range) missing")
        }
        switch link.follow(row) {
        case .fits: id = found
        case .unlinked:
            throw .init(
                .moved,
                row: found,
                "row \(found) does not follow the row before it: rows were moved, removed or replaced"
            )
        case .changed:
            throw .init(
                .changed,
                row: found,
                "row \(found) was changed after it was written, or written without the key"
            )
        case .otherLink:
            throw .init(.changed, row: found, "the link of row \(found) to the row before it was changed")
        }
    }
}

/// Compares the two hashes of one row after the other with what they have to be.
struct ChainLink {
    enum Finding {
        case fits
        /// Neither the row's hash nor its link to the row before is right.
        case unlinked
        /// The hash is not the one of the columns.
        case changed
        /// The hash is right, and the link is not the one that it covers.
        case otherLink
    }

    private let code: HMAC<SHA256>
    private let columns: Int
    /// The hash of the row before, as the table spells it.
    private var hash: [UInt8]
    private var next = [UInt8](repeating: 0, count: 64)
    private var encoding = ChainEncoding()

    /// - Parameter columns: How many columns the hash covers. The link to the row before and the hash stand behind them.
    init(_ domain: AuditChain.Domain, columns: Int, after previous: String, chain: AuditChain) {
        code = chain.code(for: domain)
        self.columns = columns
        hash = Array(previous.utf8)
    }

    var previous: String { String(decoding: hash, as: UTF8.self) }

    /// Goes on to `row` when it fits.
    mutating func follow(_ row: borrowing StatementRow) -> Finding {
        encoding.removeAll()
        encoding.add(text: hash)
        for column in 0..<columns { encoding.add(column, of: row) }
        var code = code
        code.update(data: encoding.bytes)
        unsafe code.finalize().withUnsafeBytes { bytes in
            for index in 0..<32 { (next[2 * index], next[2 * index + 1]) = unsafe Hexadecimal.digits(of: bytes[index]) }
        }
        let isLinked = row.holds(hash, at: columns)
        guard row.holds(next, at: columns + 1) else { return isLinked ? .changed : .unlinked }
        guard isLinked else { return .otherLink }
        swap(&hash, &next)
        return .fits
    }
}

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
