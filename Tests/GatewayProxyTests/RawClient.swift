import Foundation
import GatewayTesting

/// A client and an origin that speak bytes, so that a test sees what was really sent.
///
/// Blocking sockets on threads of their own: simple, and with a deadline on every read.
final class RawConnection: @unchecked Sendable {
    // Used by one thread at a time.
    private let descriptor: Int32
    private var isClosed = false
    private var buffered: [UInt8] = []
    private var connectionEnd: ConnectionEnd?

    /// Why there is nothing more to read.
    enum ConnectionEnd: Equatable {
        /// The peer has said that this was all: the end of the stream.
        case closed
        case reset
        /// The connection is still open, and nothing has come for five seconds, or for as long as the test waits.
        case silence
    }

    init(descriptor: Int32) {
        self.descriptor = descriptor
        waitAtMost(milliseconds: 5000)
    }

    /// How long a read waits for the first byte.
    func waitAtMost(milliseconds: Int) {
        var timeout = timeval(tv_sec: milliseconds / 1000, tv_usec: milliseconds % 1000 * 1000)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }

    /// - Parameter receiveBuffer: Bytes that the system keeps for who does not read; nil leaves that to the system.
    convenience init(port: Int, receiveBuffer: Int32? = nil) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if var receiveBuffer {
            // Before the handshake, which offers the window.
            let size = socklen_t(MemoryLayout<Int32>.size)
            unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, size)
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        let result = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw RawError("cannot connect to port \(port)") }
        self.init(descriptor: descriptor)
    }

    func send(_ text: String) { send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { pointer in
                unsafe Glibc.send(
                    descriptor,
                    pointer.baseAddress?.advanced(by: sent),
                    bytes.count - sent,
                    Int32(MSG_NOSIGNAL)
                )
            }
            guard count > 0 else { return }
            sent += count
        }
    }

    func shutdownOutput() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    /// Once only: the number may belong to somebody else by the second time.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        _ = Glibc.close(descriptor)
    }

    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        close()
    }

    /// - Returns: false when there is nothing more; `connectionEnd` says why.
    private func receive() -> Bool {
        var chunk = [UInt8](repeating: 0, count: 65536)
        var count = -1
        repeat { count = unsafe recv(descriptor, &chunk, chunk.count, 0) } while count < 0 && errno == EINTR
        guard count > 0 else {
            connectionEnd = count == 0 ? .closed : errno == EAGAIN || errno == EWOULDBLOCK ? .silence : .reset
            return false
        }
        buffered += chunk.prefix(count)
        return true
    }

    /// Everything up to and including `mark`.
    func read(through mark: String) -> String? {
        let pattern = Array(mark.utf8)
        while true {
            if let end = find(pattern) { return String(decoding: take(end), as: UTF8.self) }
            guard receive() else { return nil }
        }
    }

    /// Bytes that have come and that the test has not read.
    var waitingBytes: Int {
        var count: Int32 = 0
        guard unsafe ioctl(descriptor, UInt(FIONREAD), &count) == 0 else { return buffered.count }
        return buffered.count + Int(count)
    }

    func read(count: Int) -> String? { readBytes(count).map { String(decoding: $0, as: UTF8.self) } }

    func readBytes(_ count: Int) -> [UInt8]? {
        while buffered.count < count { guard receive() else { return nil } }
        return take(count)
    }

    /// Everything up to the end.
    ///
    /// - Throws: When it ends in another way than one of these.
    @discardableResult
    func readToEnd(_ expected: ConnectionEnd...) throws -> String {
        while receive() {}
        let text = String(decoding: take(buffered.count), as: UTF8.self)
        guard let connectionEnd, expected.contains(connectionEnd) else {
            let found = connectionEnd.map { "\($0)" } ?? "none"
            throw RawError("expected \(expected), but the end was \(found) after: \(text)")
        }
        return text
    }

    /// A head, and the body that its Content-Length announces.
    ///
    /// - Parameter readsChunks: Also reads a body in chunks: what they contain, followed by the trailers as they were sent.
    func readMessage(readsChunks: Bool = false) -> (head: String, body: String)? {
        guard let head = read(through: "\r\n\r\n") else { return nil }
        if readsChunks, head.lowercased().contains("\r\ntransfer-encoding: chunked\r\n") {
            return readChunks().map { (head, $0) }
        }
        let length = head.lowercased().split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
            .flatMap { Int($0.dropFirst(15).trimmingCharacters(in: .whitespaces)) }
        guard let length, length > 0 else { return (head, "") }
        guard let body = read(count: length) else { return nil }
        return (head, body)
    }

    private func readChunks() -> String? {
        var text = ""
        while let line = read(through: "\r\n"), let size = Int(line.prefix { $0.isHexDigit }, radix: 16) {
            guard size == 0 else {
                guard let content = read(count: size), read(count: 2) == "\r\n" else { return nil }
                text += content
                continue
            }
            while let trailer = read(through: "\r\n") {
                if trailer == "\r\n" { return text }
                text += trailer
            }
        }
        return nil
    }

    private func find(_ pattern: [UInt8]) -> Int? {
        guard buffered.count >= pattern.count else { return nil }
        for start in 0...(buffered.count - pattern.count)
        where buffered[start..<start + pattern.count].elementsEqual(pattern) {
            return start + pattern.count
        }
        return nil
    }

    private func take(_ count: Int) -> [UInt8] {
        defer { buffered.removeFirst(count) }
        return Array(buffered.prefix(count))
    }
}

struct RawError: Error, CustomStringConvertible {
    let description: String
    init(_ text: String) { description = text }
}

/// An origin that answers each connection with a script and keeps what it received.
final class RawOrigin: @unchecked Sendable {
    // What changes is guarded by `lock`; everything else is written once in `init`.
    let port: Int
    private let listener: Int32
    private let lock = NSLock()
    private var received: [String] = []
    private var accepted = 0
    private var running = 0
    private var failures: [any Error] = []
    private var isStopped = false

    /// - Parameter serve: Runs on a thread of its own for each connection; its second argument counts connections from 1.
    ///   What it throws fails the test in ``finish()``.
    init(_ serve: @escaping @Sendable (RawConnection, Int, RawOrigin) throws -> Void) throws {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let result = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                let bound = unsafe bind(listener, $0, size)
                return unsafe bound == 0 ? getsockname(listener, $0, &size) : bound
            }
        }
        guard result == 0, listen(listener, 128) == 0 else { throw RawError("cannot listen") }
        port = Int(in_port_t(bigEndian: address.sin_port))
        Thread.detachNewThread { [self] in
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else {
                    // Closed by the thread that accepts, so that it never accepts on somebody else's socket.
                    _ = close(listener)
                    return
                }
                let number = countAccepted()
                let connection = RawConnection(descriptor: descriptor)
                Thread.detachNewThread { [self] in
                    let outcome = Result { try serve(connection, number, self) }
                    ended(outcome)
                }
            }
        }
    }

    private func countAccepted() -> Int {
        lock.withLock {
            accepted += 1
            running += 1
            return accepted
        }
    }

    private func ended(_ outcome: Result<Void, any Error>) {
        lock.withLock {
            running -= 1
            if case .failure(let failure) = outcome { failures.append(failure) }
        }
    }

    func record(_ text: String) { lock.withLock { received.append(text) } }
    var requests: [String] { lock.withLock { received } }
    var connections: Int { lock.withLock { accepted } }

    func stop() {
        let isFirst = lock.withLock {
            defer { isStopped = true }
            return !isStopped
        }
        if isFirst { _ = shutdown(listener, Int32(SHUT_RDWR)) }
    }

    /// Stops, and waits for the scripts of all connections; the peers have closed theirs by now.
    ///
    /// - Throws: What a script has thrown.
    func finish() throws {
        stop()
        try blockUntil("the scripts of the origin have ended") { lock.withLock { running == 0 } }
        if let failure = lock.withLock({ failures.first }) { throw failure }
    }

    /// Answers every request with 200 and a body, keeps the connection.
    static func answering(_ answer: String = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") throws -> RawOrigin {
        try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head + message.body)
                connection.send(answer)
            }
            connection.close()
        }
    }

    /// Answers every request with 200 when the content has come, whose chunks and trailers end with `mark`.
    static func answering(contentThrough mark: String) throws -> RawOrigin {
        try RawOrigin { connection, _, origin in
            while let head = connection.read(through: "\r\n\r\n") {
                guard let content = connection.read(through: mark) else { throw RawError("no \(mark) behind \(head)") }
                origin.record(head + content)
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
    }
}
