import CPostgreSQL
import Foundation
import Synchronization

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// An open connection of libpq, used by one thread.
@safe
final class LibPQ {
    private let connection: OpaquePointer
    /// Not to be shown.
    private let password: String?
    let serverVersion: Int
    /// A pooler between here and the server makes up an id of its own.
    var backend: Int { Int(unsafe pq_backendPID(connection)) }

    deinit { unsafe pq_finish(connection) }

    /// nil when libpq can be used, otherwise what to do.
    static var problem: String? {
        guard let reason = unsafe pq_load() else { return nil }
        return
            "libpq, the client library of PostgreSQL, cannot be loaded (\(ServerText.clean(unsafe String(cString: reason), hiding: nil)));"
            + " install it (Debian: apt-get install libpq5) and restart the gateway"
    }

    /// - Parameter isWanted: Asked while waiting; false ends the attempt.
    init(
        _ settings: [(name: String, value: String)],
        until deadline: ContinuousClock.Instant,
        isWanted: () -> Bool
    ) throws(PostgreSQLFailure) {
        if let problem = Self.problem { throw PostgreSQLFailure(.notSent, problem) }
        let password = settings.last { $0.name == "password" }?.value
        guard let started = unsafe Self.start(settings) else {
            throw PostgreSQLFailure(.notSent, "out of memory for a connection")
        }
        do throws(PostgreSQLFailure) {
            unsafe pq_dropNotices(started)
            try unsafe Self.connect(started, until: deadline, password, isWanted)
        } catch {
            unsafe pq_finish(started)
            throw error
        }
        unsafe connection = started
        self.password = password
        serverVersion = Int(unsafe pq_serverVersion(started))
        unsafe pq_setnonblocking(started)
    }

    private static func start(_ settings: [(name: String, value: String)]) -> OpaquePointer? {
        let names = CTexts(settings.map { Array($0.name.utf8) } + [nil])
        let values = CTexts(settings.map { Array($0.value.utf8) } + [nil])
        return unsafe withExtendedLifetime((names, values)) {
            unsafe pq_connectStartParams(names.pointers, values.pointers)
        }
    }

    private static func connect(
        _ connection: OpaquePointer,
        until deadline: ContinuousClock.Instant,
        _ password: String?,
        _ isWanted: () -> Bool
    ) throws(PostgreSQLFailure) {
        var step = PGRES_POLLING_WRITING
        if unsafe pq_status(connection) == CONNECTION_BAD { step = PGRES_POLLING_FAILED }
        while true {
            switch step {
            case PGRES_POLLING_OK: return
            case PGRES_POLLING_FAILED:
                throw PostgreSQLFailure(.notSent, unsafe message(connection, password))
            default:
                let events = Int16(step == PGRES_POLLING_READING ? POLLIN : POLLOUT)
                var isReady = false
                while !isReady {
                    guard isWanted() else { throw PostgreSQLFailure(.notSent, "the connection was closed") }
                    let slice = ContinuousClock.now.advanced(by: .milliseconds(200))
                    isReady = unsafe SocketWait.wait(for: pq_socket(connection), events, until: min(slice, deadline))
                    guard isReady || ContinuousClock.now < deadline else {
                        throw PostgreSQLFailure(.notSent, "the server did not complete the connection in time")
                    }
                }
                step = unsafe pq_connectPoll(connection)
            }
        }
    }

    private static func message(_ connection: OpaquePointer, _ password: String?) -> String {
        let text = ServerText.clean(unsafe String(cString: pq_errorMessage(connection)), hiding: password)
        return text.isEmpty ? "the connection was lost" : text
    }

    private var lost: PostgreSQLFailure { PostgreSQLFailure(.unknown, unsafe Self.message(connection, password)) }

    var isAlive: Bool { unsafe pq_status(connection) == CONNECTION_OK }
    var socket: Int32 { unsafe pq_socket(connection) }

    /// Takes what the server has sent while nothing was asked: notifications, or its end.
    ///
    /// - Returns: The payloads of notifications; nil when the connection has ended.
    func takeNotifications() -> [String]? {
        guard unsafe pq_consumeInput(connection) == 1, isAlive else { return nil }
        return readNotifications()
    }

    private func readNotifications() -> [String] {
        var payloads: [String] = []
        while let notification = unsafe pq_notifies(connection) {
            if let payload = unsafe notification.pointee.extra { payloads.append(unsafe String(cString: payload)) }
            unsafe pq_freemem(notification)
        }
        return payloads
    }

    /// Sends a statement and waits for its end.
    func run(
        _ statement: PostgreSQLStatement,
        until deadline: ContinuousClock.Instant
    ) throws(PostgreSQLFailure) -> (rows: [PostgreSQLRow], notifications: [String]) {
        guard send(statement) else { throw PostgreSQLFailure(.notSent, unsafe Self.message(connection, password)) }
        try flush(until: deadline)
        var rows: [PostgreSQLRow] = []
        var refusal: PostgreSQLFailure?
        while true {
            while unsafe pq_isBusy(connection) == 1 {
                try wait(POLLIN, until: deadline)
                guard unsafe pq_consumeInput(connection) == 1 else { throw lost }
            }
            guard let result = unsafe pq_getResult(connection) else { break }
            defer { unsafe pq_clear(result) }
            switch unsafe pq_resultStatus(result) {
            case PGRES_TUPLES_OK: rows = unsafe LibPQResult(result).rows
            case PGRES_COMMAND_OK: break
            default: if refusal == nil { refusal = unsafe failure(of: result) }
            }
        }
        if let refusal { throw refusal }
        guard isAlive else { throw lost }
        return (rows, readNotifications())
    }

    private func failure(of result: OpaquePointer) -> PostgreSQLFailure {
        // The letters of PG_DIAG_SQLSTATE and PG_DIAG_MESSAGE_PRIMARY. Without a code, the connection was lost.
        guard let state = unsafe pq_resultErrorField(result, Int32(UInt8(ascii: "C"))) else { return lost }
        let text = unsafe pq_resultErrorField(result, Int32(UInt8(ascii: "M"))).map { unsafe String(cString: $0) }
        let code = ServerText.clean(unsafe String(cString: state), hiding: nil)
        return PostgreSQLFailure(
            .refused(code),
            "the server answered \"\(ServerText.clean(text ?? "", hiding: password))\" (SQLSTATE \(code))"
        )
    }

    private func send(_ statement: PostgreSQLStatement) -> Bool {
        let values = CTexts(statement.parameters.map(\.encoded))
        let lengths = statement.parameters.map { Int32($0.encoded?.count ?? 0) }
        let formats = statement.parameters.map { Int32($0.isBinary ? 1 : 0) }
        // Never empty: libpq does not read what is behind the count.
        let (allLengths, allFormats) = (lengths + [0], formats + [0])
        let count = Int32(lengths.count)
        let text = statement.text
        let code = withExtendedLifetime(values) {
            unsafe pq_sendQueryParams(connection, text, count, values.pointers, allLengths, allFormats)
        }
        return code == 1
    }

    private func flush(until deadline: ContinuousClock.Instant) throws(PostgreSQLFailure) {
        while true {
            switch unsafe pq_flush(connection) {
            case 0: return
            case 1:
                try wait(POLLIN | POLLOUT, until: deadline)
                guard unsafe pq_consumeInput(connection) == 1 else { throw lost }
            default: throw lost
            }
        }
    }

    private func wait(_ events: some BinaryInteger, until deadline: ContinuousClock.Instant) throws(PostgreSQLFailure) {
        guard SocketWait.wait(for: socket, Int16(events), until: deadline) else {
            throw PostgreSQLFailure(.unknown, "the server did not answer in time")
        }
    }

    /// Asks the server to stop a statement whose callers have left.
    func cancellation() -> OpaquePointer? { unsafe pq_getCancel(connection) }
}

/// Asks a server to stop a statement. One at a time: a server that does not answer holds the thread.
enum PostgreSQLCancellation {
    private static let isBusy = Mutex(false)

    static func begin(_ session: LibPQ) {
        guard
            !isBusy.withLock({ isBusy in
                defer { isBusy = true }; return isBusy
            })
        else { return }
        guard let cancel = unsafe session.cancellation() else { return isBusy.withLock { $0 = false } }
        // Used by that thread alone.
        let address = UInt(bitPattern: cancel)
        Thread.detachNewThread {
            if let cancel = unsafe OpaquePointer(bitPattern: address) {
                unsafe pq_cancel(cancel)
                unsafe pq_freeCancel(cancel)
            }
            isBusy.withLock { $0 = false }
        }
    }
}

/// Values in memory of their own, as libpq takes them: each null-terminated, nil as a null pointer.
@safe
final class CTexts {
    private let buffers: [UnsafeMutableBufferPointer<CChar>?]
    /// Valid as long as this object.
    let pointers: UnsafeMutablePointer<UnsafePointer<CChar>?>

    init(_ values: [[UInt8]?]) {
        unsafe buffers = values.map { value in
            guard let value else { return nil }
            let buffer = UnsafeMutableBufferPointer<CChar>.allocate(capacity: value.count + 1)
            _ = unsafe buffer.initialize(from: value.map { CChar(bitPattern: $0) } + [0])
            return unsafe buffer
        }
        // One more than there are values, so that it always has an address.
        unsafe pointers = .allocate(capacity: values.count + 1)
        unsafe pointers.initialize(repeating: nil, count: values.count + 1)
        for index in values.indices {
            unsafe pointers[index] = unsafe buffers[index].flatMap { unsafe UnsafePointer($0.baseAddress) }
        }
    }

    deinit {
        unsafe buffers.forEach { unsafe $0?.deallocate() }
        unsafe pointers.deallocate()
    }
}

extension PostgreSQLStatement.Parameter {
    var encoded: [UInt8]? {
        switch self {
        case .null: nil
        case .text(let text): Array(text.utf8)
        case .integer(let number): Array(String(number).utf8)
        case .bytes(let bytes): bytes
        }
    }

    var isBinary: Bool { if case .bytes = self { true } else { false } }
}

/// Reads a result in binary format (PostgreSQL documentation, chapter 55: the formats are those of each type's `send`).
@safe
struct LibPQResult {
    private let result: OpaquePointer

    init(_ result: OpaquePointer) { unsafe self.result = unsafe result }

    var rows: [PostgreSQLRow] {
        let columns = unsafe pq_nfields(result)
        return (0..<(unsafe pq_ntuples(result))).map { row in
            PostgreSQLRow(values: (0..<columns).map { value(row, $0) })
        }
    }

    private func value(_ row: Int32, _ column: Int32) -> PostgreSQLRow.Value {
        guard unsafe pq_getisnull(result, row, column) == 0 else { return .null }
        let count = Int(unsafe pq_getlength(result, row, column))
        let start = unsafe UnsafeRawPointer(pq_getvalue(result, row, column))
        let bytes = unsafe Array(UnsafeRawBufferPointer(start: start, count: count))
        // The numbers are those of pg_type: bool, bytea, int8, int4.
        switch unsafe pq_ftype(result, column) {
        case 16: return .boolean(bytes.first == 1)
        case 17: return .bytes(bytes)
        case 20 where count == 8: return .integer(Int64(bitPattern: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }))
        case 23 where count == 4:
            return .integer(Int64(Int32(bitPattern: bytes.reduce(UInt32(0)) { $0 << 8 | UInt32($1) })))
        default: return .text(String(decoding: bytes, as: UTF8.self))
        }
    }
}
