import GRDB
import GatewayCore
import GatewayFiles
import Testing

@testable import GatewayAudit

@Suite("What is selected from the tables of the audit log", .timeLimit(.minutes(1)))
struct AuditSelectionTests {
    private static let filter = AuditFilter(
        credential: "box",
        route: "files",
        client: "ci",
        event: .renewed,
        request: "r-1",
        failedOnly: true,
        after: 7
    )

    @Test func everyRowIsMeantByDefault() {
        for table in [AuditFilter.Table.events, .requests, .sharedEvents] {
            let condition = AuditFilter().condition(for: table)
            #expect(condition.sql == "true" && condition.parameters.isEmpty)
        }
    }

    @Test func aParameterHasItsNumberInBothDatabases() {
        let local = Self.filter.condition(for: .events)
        let shared = Self.filter.condition(for: .sharedEvents)
        #expect(local.sql.hasPrefix("(credential = $1 OR substr(credential, 1, length($2)) = $2) AND route = $3 AND "))
        #expect(shared.sql.hasPrefix("(credential = $1 OR starts_with(credential, $2)) AND route = $3 AND "))
        #expect(local.sql.hasSuffix(" AND outcome = 'failed' AND id > $7"))
        #expect(shared.sql.hasSuffix(" AND outcome = 'failed' AND id > $8"))
        #expect(local.parameters.count == 7 && shared.parameters.count == 8)
    }

    /// SQLite numbers parameters as they first occur in the text.
    @Test func sqliteBindsThemInTheirOrder() throws {
        let database = try DatabaseQueue()
        var condition = AuditCondition()
        let (first, second) = (condition.bind(.text("a")), condition.bind(.integer(2)))
        condition.add("x = \(first) AND y = \(second) AND x = \(first)")
        var selection = AuditSelection(columns: ["y"], table: "numbers", condition: condition)
        selection.isNewestFirst = true
        selection.limit = 1
        #expect(
            selection.sql == "SELECT y FROM numbers WHERE x = $1 AND y = $2 AND x = $1 ORDER BY id DESC LIMIT 1"
        )
        let found = try database.write { [selection] database in
            try database.execute(sql: "CREATE TABLE numbers (id INTEGER PRIMARY KEY, x TEXT, y INTEGER)")
            try database.execute(sql: "INSERT INTO numbers VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 2)")
            return try selection.rows(in: database).map { Array($0.databaseValues) }
        }
        #expect(found == [[2.databaseValue]])
    }

    @Test func aPageBeginsWithItsKey() {
        var selection = AuditSelection(columns: ["x"], table: "numbers", key: ["at", "id"])
        selection.condition.add("x =", .text("a"))
        let page = selection.page(after: nil, size: 10)
        #expect(page.text == "SELECT at, id, x FROM numbers WHERE x = $1 ORDER BY at, id LIMIT 10")
        #expect(page.isRepeatable && page.parameters.count == 1)
    }
}
