import Foundation
import GRDB
import GatewayFiles
import Testing

@testable import GatewayAudit

@Suite("Encoding of rows", .timeLimit(.minutes(5)))
struct ChainEncodingTests {
    private static let values: [DatabaseValue] = [
        .null, 0.databaseValue, 7.databaseValue, (-7).databaseValue, Int64.max.databaseValue, Int64.min.databaseValue,
        1.5.databaseValue, (-0.0).databaseValue, "".databaseValue, "7".databaseValue, "né\u{1F600}".databaseValue,
        String(repeating: "x", count: 1000).databaseValue, Data([0, 1, 0xFF]).databaseValue,
    ]

    private static func encoding(_ value: DatabaseValue) -> [UInt8] {
        var encoding = ChainEncoding()
        encoding.add(value)
        return encoding.bytes
    }

    /// What is written is hashed from values, and what is verified from columns.
    @Test(arguments: values)
    func aColumnIsEncodedAsItsValue(_ value: DatabaseValue) throws {
        let database = try DatabaseQueue()
        try database.read { database in
            try StatementRow.forEach(of: "SELECT ?", arguments: [value], in: database) { row in
                var encoding = ChainEncoding()
                encoding.add(0, of: row)
                #expect(encoding.bytes == Self.encoding(value))
            }
        }
    }

    @Test func noTwoValuesAreEncodedAlike() {
        #expect(Set(Self.values.map(Self.encoding)).count == Self.values.count)
    }

    /// Logs that exist were hashed over these.
    @Test func theEncodingStaysWhatItWas() {
        #expect(Self.encoding(.null) == Array("n:".utf8))
        #expect(Self.encoding((-120).databaseValue) == Array("i-120:".utf8))
        #expect(Self.encoding(1.5.databaseValue) == Array("d4609434218613702656:".utf8))
        #expect(Self.encoding("né".databaseValue) == Array("t3:né".utf8))
        #expect(Self.encoding(Data("ab".utf8).databaseValue) == Array("b2:ab".utf8))
    }

    @Test func nothingOfTheRowBeforeIsLeft() {
        var encoding = ChainEncoding()
        encoding.add("before".databaseValue)
        encoding.removeAll()
        encoding.add(1.databaseValue)
        #expect(encoding.bytes == Array("i1:".utf8))
    }
}
