import Crypto
import GatewayCore

/// The chunked uploads under way. Of the parts only their digests are kept, so they have to arrive in order.
struct UploadSessions: Sendable {
    /// Box's own parts are of 8 MiB and more; small ones make small tests.
    static let partSize = 1 << 20
    static let largestFile = 1 << 30
    static let maximumSessions = 100

    struct Part: Sendable {
        let id: String
        let offset: Int
        let size: Int
        /// Hexadecimal, as Box answers it.
        let sha1: String
    }

    struct Session: Sendable {
        let fileName: String
        let fileSize: Int
        var parts: [Part] = []
        var whole = Insecure.SHA1()

        var received: Int { parts.last.map { $0.offset + $0.size } ?? 0 }
        var totalParts: Int { (fileSize + UploadSessions.partSize - 1) / UploadSessions.partSize }
        /// Base64, as the `Digest` field writes it (RFC 3230).
        var digest: String { "sha=" + Base64.encode(whole.finalize()) }
    }

    private var sessions: [String: Session] = [:]

    subscript(id: String) -> Session? { sessions[id] }

    mutating func begin(_ session: Session, id: String) -> Bool {
        guard sessions.count < Self.maximumSessions else { return false }
        sessions[id] = session
        return true
    }

    /// nil when the session is unknown, or the part is not the one that comes next.
    mutating func add(_ bytes: [UInt8], at range: Range<Int>, of total: Int, to id: String) -> Part? {
        guard var session = sessions[id], session.fileSize == total, session.received == range.lowerBound,
            range.count == bytes.count, range.count == min(Self.partSize, total - range.lowerBound)
        else { return nil }
        let part = Part(
            id: "\(id)-\(session.parts.count + 1)",
            offset: range.lowerBound,
            size: bytes.count,
            sha1: Hexadecimal.text(of: Insecure.SHA1.hash(data: bytes))
        )
        session.parts.append(part)
        session.whole.update(data: bytes)
        sessions[id] = session
        return part
    }

    mutating func end(_ id: String) -> Session? { sessions.removeValue(forKey: id) }
}
