import Crypto
import GatewayHTTP
import HTTPTypes
import Hummingbird

/// Box's chunked uploads: a session, its parts in order, and the commit. The addresses of the steps are absolute, as
/// Box's are, so a client that is to stay behind a proxy has to use it as one.
struct BoxUploads: Sendable {
    let world: World

    func create(_ request: Request) async throws -> Response {
        let body = try await request.body.collect(upTo: 64 << 10)
        guard let answer = JSONValue(Array(body.readableBytesView)), let name = answer["file_name"]?.string,
            case .number(let number) = answer["file_size"], let size = number.int,
            (1...UploadSessions.largestFile).contains(size)
        else { return BoxRefusal.json(400, code: "bad_request", "file_name and file_size are needed") }
        let session = UploadSessions.Session(fileName: name, fileSize: size)
        return world.withState { state, now in
            state.uploadSerial += 1
            let id = "S\(state.uploadSerial)"
            guard state.uploads.begin(session, id: id) else {
                return BoxRefusal.json(429, code: "rate_limit_exceeded", "Too many uploads are under way")
            }
            let base = "\(state.addresses?.box ?? "")/2.0/files/upload_sessions/\(id)"
            return .json(
                [
                    "type": "upload_session", "id": .string(id), "part_size": .integer(UploadSessions.partSize),
                    "total_parts": .integer(session.totalParts), "num_parts_processed": 0,
                    "session_endpoints": [
                        "upload_part": .string(base), "commit": .string("\(base)/commit"), "abort": .string(base),
                        "list_parts": .string("\(base)/parts"), "status": .string(base),
                        "log_event": .string("\(base)/log"),
                    ],
                ],
                status: .created
            )
        }
    }

    func addPart(to id: String, _ request: Request) async throws -> Response {
        let body = try await request.body.collect(upTo: UploadSessions.partSize)
        let bytes = Array(body.readableBytesView)
        guard let (range, total) = Self.contentRange(request.headers[.contentRange]) else {
            return BoxRefusal.json(400, code: "bad_request", "Content-Range is missing or wrong")
        }
        guard request.headers[.digest] == "sha=" + Base64.encode(Insecure.SHA1.hash(data: bytes)) else {
            return BoxRefusal.json(400, code: "bad_digest", "Digest does not match the part")
        }
        let part = world.withState { state, _ in state.uploads.add(bytes, at: range, of: total, to: id) }
        guard let part else {
            return BoxRefusal.json(409, code: "range_overlaps_existing_range", "This is not the next part")
        }
        return .json(["part": json(part)])
    }

    func listParts(of id: String) -> Response {
        guard let session = world.withState({ state, _ in state.uploads[id] }) else { return Self.unknown }
        return .json(
            [
                "total_count": .integer(session.parts.count), "offset": 0, "limit": 1000, "order": [],
                "entries": .array(session.parts.map(json)),
            ]
        )
    }

    func commit(_ id: String, _ request: Request) async throws -> Response {
        _ = try await request.body.collect(upTo: 1 << 20)
        guard let session = world.withState({ state, _ in state.uploads[id] }) else { return Self.unknown }
        guard session.received == session.fileSize, request.headers[.digest] == session.digest else {
            return BoxRefusal.json(
                412,
                code: "precondition_failed",
                "Parts are missing, or Digest does not match the file"
            )
        }
        return world.withState { state, _ in
            guard state.uploads.end(id) != nil else { return Self.unknown }
            state.counters.uploads += 1
            state.counters.uploadedBytes += session.fileSize
            let file: JSON = [
                "type": "file", "id": .string("5\(state.counters.uploads)"), "etag": "0",
                "name": .string(session.fileName), "size": .integer(session.fileSize),
            ]
            return .json(["total_count": 1, "entries": .array([file])], status: .created)
        }
    }

    func abort(_ id: String) -> Response {
        world.withState { state, _ in state.uploads.end(id) } == nil ? Self.unknown : .empty(.noContent)
    }

    private static let unknown = BoxRefusal.json(404, code: "not_found", "There is no such upload session")

    private func json(_ part: UploadSessions.Part) -> JSON {
        [
            "part_id": .string(part.id), "offset": .integer(part.offset), "size": .integer(part.size),
            "sha1": .string(part.sha1),
        ]
    }

    /// `bytes 0-1048575/5000000`
    private static func contentRange(_ text: String?) -> (Range<Int>, total: Int)? {
        guard let text, text.hasPrefix("bytes ") else { return nil }
        let numbers = text.dropFirst(6).split(whereSeparator: { $0 == "-" || $0 == "/" }).map { Int($0) }
        guard numbers.count == 3, let first = numbers[0], let last = numbers[1], let total = numbers[2],
            first >= 0, first <= last, last < total, total <= UploadSessions.largestFile
        else { return nil }
        return (first..<(last + 1), total)
    }
}

/// The chunked uploads under way. Of the parts only their digests are kept, so they have to arrive in order.
struct UploadSessions: Sendable {
    /// Box's own parts are of 8 MiB and more; small ones make small tests.
    fileprivate static let partSize = 1 << 20
    fileprivate static let largestFile = 1 << 30
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
