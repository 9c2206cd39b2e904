import GRDB
import GatewayFiles
import Testing

@Suite("Rows without values", .timeLimit(.minutes(5)))
struct StatementRowTests {
    private let database: DatabaseQueue

    init() throws { database = try DatabaseQueue() }

    private func one<Result>(_ sql: String, _ body: (borrowing StatementRow) -> Result) throws -> Result {
        try database.read { database in
            var results: [Result] = []
            try StatementRow.forEach(of: sql, in: database) { results.append(body($0)) }
            return try #require(results.first)
        }
    }

    private static func bytes(_ row: borrowing StatementRow, at column: Int) -> [UInt8] {
        row.withBytes(at: column, of: row.kind(at: column)) { span in
            (0..<span.byteCount).map { unsafe span.unsafeLoad(fromByteOffset: $0, as: UInt8.self) }
        }
    }

    @Test func eachKindIsRead() throws {
        try one("SELECT NULL, -5, 1.5, 'né', x'00ff', ''") { row in
            #expect((0..<6).map { row.kind(at: $0) } == [.null, .integer, .real, .text, .blob, .text])
            #expect(row.integer(at: 1) == -5)
            #expect(row.real(at: 2) == 1.5)
            #expect(Self.bytes(row, at: 3) == Array("né".utf8))
            #expect(Self.bytes(row, at: 4) == [0, 0xFF])
            #expect(Self.bytes(row, at: 5) == [])
            let texts = [row.text(at: 3), row.text(at: 1), row.text(at: 0)]
            #expect(texts == ["né", nil, nil])
        }
    }

    @Test func aTextIsReadBeyondItsNUL() throws {
        try one("SELECT 'a' || char(0) || 'b'") { row in
            #expect(Self.bytes(row, at: 0) == [0x61, 0, 0x62])
            let found = [row.holds([0x61], at: 0), row.holds([0x61, 0, 0x62], at: 0)]
            #expect(found == [false, true])
        }
    }

    @Test func onlyATextHoldsAText() throws {
        try one("SELECT x'61', 'a', 1") { row in
            let found = [row.holds([0x61], at: 0), row.holds([0x61], at: 1), row.holds([0x31], at: 2)]
            #expect(found == [false, true, false])
        }
    }

    @Test func everyRowIsVisitedAndAnErrorEndsIt() throws {
        struct Enough: Error {}
        var visited: [Int64] = []
        try database.read { database in
            let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n"
            try StatementRow.forEach(of: sql, arguments: [4], in: database) { visited.append($0.integer(at: 0)) }
            #expect(throws: Enough.self) {
                try StatementRow.forEach(of: sql, arguments: [4], in: database) { _ in throw Enough() }
            }
        }
        #expect(visited == [1, 2, 3, 4])
    }
}
