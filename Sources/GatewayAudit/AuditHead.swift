import Foundation
import GatewayFiles

/// The end of the log, kept in a file of its own beside the database (`audit.sqlite.head`): a table that ends before it
/// was cut.
///
/// Replaced whole after each commit. A crash in between leaves it behind the table by some rows, which is no fault.
struct AuditHead: Hashable, Codable, Sendable {
    let id: Int64
    let hash: String
    /// Keeps somebody who cut the table from writing the matching head.
    let authentication: String

    init(id: Int64, hash: String, chain: AuditChain) {
        self.id = id
        self.hash = hash
        authentication = chain.hash(ofHead: id, hash)
    }

    func isAuthentic(for chain: AuditChain) -> Bool { authentication == chain.hash(ofHead: id, hash) }

    static func path(for database: String) -> String { database + ".head" }

    enum Stored: Equatable {
        case missing
        case unreadable
        case head(AuditHead)
    }

    static func read(for database: String) -> Stored {
        let path = path(for: database)
        guard FileManager.default.fileExists(atPath: path) else { return .missing }
        guard let handle = FileHandle(forReadingAtPath: path), let data = try? handle.read(upToCount: 4096),
            let head = try? JSONDecoder().decode(AuditHead.self, from: data)
        else { return .unreadable }
        return .head(head)
    }

    func write(for database: String) throws(PrivateFile.Failure) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        guard let data = try? encoder.encode(self) else { throw PrivateFile.Failure("it cannot be encoded") }
        try PrivateFile.replace(Self.path(for: database), with: Array(data) + Array("\n".utf8))
    }
}
