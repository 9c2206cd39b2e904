import Foundation
import GatewayFiles
package import GatewayHTTP

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

/// The end of the log at one moment, as it is sent to the anchor: `2026-03-01T09:30:00.000Z 120:HASH AUTHENTICATION`.
package struct AnchoredHead: Hashable, Sendable {
    package let at: UnixTime
    package let id: Int64
    package let hash: String
    private let authentication: String

    init(_ head: AuditHead, at time: UnixTime) {
        at = time
        id = head.id
        hash = head.hash
        authentication = head.authentication
    }

    /// nil for a line that is not whole, as a full disk leaves one.
    package init?(line: some StringProtocol) {
        let words = line.split(separator: " ")
        guard words.count == 3, let at = UnixTime(rfc3339: String(words[0])), let (id, hash) = Self.row(words[1]),
            Hexadecimal.bytes(of: String(words[2]))?.count == 32
        else { return nil }
        self.at = at
        self.id = id
        self.hash = hash
        authentication = String(words[2])
    }

    /// Reads `120:HASH`.
    package static func row(_ text: some StringProtocol) -> (id: Int64, hash: String)? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let id = Int64(parts[0]), id > 0, Hexadecimal.bytes(of: String(parts[1]))?.count == 32
        else { return nil }
        return (id, parts[1].lowercased())
    }

    package var line: String { "\(at.rfc3339) \(id):\(hash) \(authentication)" }

    /// Those of a text with one in a line.
    package static func all(in bytes: some Sequence<UInt8>) -> [AnchoredHead] {
        bytes.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D })
            .compactMap { AnchoredHead(line: String(decoding: $0, as: UTF8.self)) }
    }

    func isAuthentic(for chain: AuditChain) -> Bool { authentication == chain.hash(ofHead: id, hash) }
}
