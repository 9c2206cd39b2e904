import Foundation
import GRDB
import GatewayFiles
import Testing

@Suite("SQLite files", .timeLimit(.minutes(5)))
struct SQLiteFileTests {
    private static let locked =
        "another process holds a write transaction on NAME, so it is locked; end that process, one of those that "
        + "`fuser PATH` lists besides the gateway"

    private static let words: [(ResultCode, String)] = [
        (.SQLITE_FULL, "the disk that holds NAME is full; free some space"),
        (
            .SQLITE_IOERR_WRITE,
            "the disk that holds NAME reports an I/O error (SQLite 778); check the disk and the system log"
        ),
        (.SQLITE_READONLY, "NAME is read-only; check the owner and the mode of the file and its directory"),
        (.SQLITE_BUSY, locked),
        (.SQLITE_LOCKED, locked),
        (
            .SQLITE_CANTOPEN,
            "NAME cannot be opened; check that its directory exists and that this user may read and write both"
        ),
        (.SQLITE_NOTADB, "NAME is not a valid SQLite database; restore it from a backup or move it away"),
        (.SQLITE_CONSTRAINT_UNIQUE, "NAME refuses the row (SQLite 2067); another program writes to it"),
        (.SQLITE_MISUSE, "NAME cannot be used (SQLite 21)"),
    ]

    @Test(arguments: words)
    func anErrorSaysWhatToDoAndHoldsNoValue(_ code: ResultCode, _ expected: String) {
        let error = DatabaseError(resultCode: code, message: "a value", sql: "SELECT 'another'")
        #expect(SQLiteFile.words(for: error, file: "NAME", path: "PATH") == expected)
    }

    @Test func anotherErrorIsNotRepeated() {
        #expect(SQLiteFile.words(for: CocoaError(.fileNoSuchFile), file: "NAME", path: "PATH") == "NAME cannot be used")
    }

    @Test func whatIsCommittedIsOnTheDisk() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("sqlite-\(UUID().uuidString)").path
        defer { for end in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + end) } }
        let database = try SQLiteFile.open(path, label: "test", lockLimit: .seconds(1))
        let settings = try database.inDatabase { database in
            try ["journal_mode", "synchronous"].map { try String.fetchOne(database, sql: "PRAGMA \($0)") }
        }
        #expect(settings == ["wal", "2"])
        try database.close()
    }

    /// For those that only read and cannot make one: it is there, with something in it, after each opening.
    @Test func theWriteAheadLogIsThereWhenTheFileIsOpen() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("sqlite-\(UUID().uuidString)").path
        defer { for end in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + end) } }
        for number in 1...3 {
            let database = try SQLiteFile.open(path, label: "test", lockLimit: .seconds(1))
            #expect(FileStatus.size(of: path + "-wal") ?? 0 > 0)
            var configuration = Configuration()
            configuration.readonly = true
            let reader = try DatabaseQueue(path: path, configuration: configuration)
            try database.inDatabase {
                try $0.execute(sql: "CREATE TABLE IF NOT EXISTS a (b); INSERT INTO a VALUES (\(number))")
            }
            let count = try reader.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM a") }
            #expect(count == number)
            let tables = try reader.read { try String.fetchAll($0, sql: "SELECT name FROM sqlite_schema") }
            #expect(tables == ["a"])
            try reader.close()
            try database.close()
        }
    }

    @Test func aFileThatCannotBeWrittenIsNotOpened() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("sqlite-\(UUID().uuidString)").path
        defer { for end in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + end) } }
        var configuration = Configuration()
        // It leaves a transaction open.
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: path, configuration: configuration)
        try other.inDatabase { try $0.execute(sql: "CREATE TABLE a (b); BEGIN IMMEDIATE") }
        #expect(throws: DatabaseError.self) {
            _ = try SQLiteFile.open(path, label: "test", lockLimit: .milliseconds(10))
        }
        try other.inDatabase { try $0.execute(sql: "ROLLBACK") }
        try other.close()
    }
}
