import Crypto
import Foundation
import GatewayCore
import GatewayFiles

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
        let expected = id + 1
        guard row.kind(at: 0) == .integer else { throw .init(.changed, row: expected, "a row has no number") }
        let found = row.integer(at: 0)
        guard found >= expected else {
            throw .init(.moved, row: found, "row \(found) comes before the first row, \(expected)")
        }
        guard found == expected else {
            let range = found == expected + 1 ? "row \(expected) is" : "rows \(expected) to \(found - 1) are"
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
