import GatewayCore
import GatewayFiles

/// The databases of a gateway, locked: two state directories may name the same file.
struct DatabaseLocks: Sendable {
    fileprivate enum Database: CaseIterable {
        case audit
        case tokens

        var name: String { self == .audit ? "the audit log" : "the token store" }
        var key: String { self == .audit ? "audit.path" : "tokens.path" }
    }

    private var locks: [Database: FileLock] = [:]

    /// Locks the files that are there and creates none.
    ///
    /// - Throws: ``StateError`` when another process holds one of the files, or both keys name one file.
    init(existingOf places: Storage.Places) throws(StateError) {
        for database in Database.allCases {
            guard let path = places.path(of: database), FileIdentity(path) != nil else { continue }
            try lock(database, path)
        }
    }

    /// Locks the others, too, which are created.
    mutating func createMissing(of places: Storage.Places) throws(StateError) {
        for database in Database.allCases where locks[database] == nil {
            guard let path = places.path(of: database) else { continue }
            try lock(database, path)
        }
    }

    private mutating func lock(_ database: Database, _ path: String) throws(StateError) {
        try StateError.explaining(
            "\(database.name) \(path) cannot be opened",
            try PrivateFile.ensure(path, keepsMode: database == .audit)
        )
        if let identity = FileIdentity(path), locks.values.contains(where: { $0.identity == identity }) {
            throw StateError("audit.path and tokens.path name the same file, \(path); set one of them to another file")
        }
        do throws(FileLock.Failure) {
            locks[database] = try FileLock(path)
        } catch {
            switch error {
            case .held:
                throw StateError(
                    "another gateway uses \(database.name) \(path); stop it, or set \(database.key) to another file. This"
                        + " names its process:\n  fuser \(path)"
                )
            case .other(let code):
                throw StateError("\(database.name) \(path) cannot be locked: \(SystemError.text(code))")
            }
        }
    }
}

extension Storage.Places {
    /// nil where the database is not a file.
    fileprivate func path(of database: DatabaseLocks.Database) -> String? {
        switch database {
        case .audit: audit.path
        case .tokens: tokens.store == .sqlite ? tokens.path : nil
        }
    }
}
