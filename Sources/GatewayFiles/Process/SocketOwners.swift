package import GatewayHTTP
import Glibc

/// Which users own the TCP sockets of this machine, from `/proc/net/tcp` (Documentation/networking/proc_net_tcp.rst of Linux).
package enum SocketOwners {
    private static let tables = ["/proc/net/tcp", "/proc/net/tcp6"]

    /// The users who listen on a port. One that cannot be read becomes `UInt32.max`, which is the number of no user.
    package static func listening(at port: Int) -> Set<UInt32> {
        tables.reduce(into: []) { $0.formUnion(listening(at: port, in: TextLines($1))) }
    }

    package static func listening(at port: Int, in lines: some Sequence<String>) -> Set<UInt32> {
        var owners: Set<UInt32> = []
        for row in lines.lazy.compactMap({ Row($0) }) {
            // The system lists sockets that listen before all others.
            guard row.state == .listening else { return owners }
            if row.port == port { owners.insert(row.owner ?? .max) }
        }
        return owners
    }

    /// The user who owns the client's end of a connection; nil if the system does not list it.
    package static func connected(
        _ client: (address: IPAddress, port: Int),
        to server: (address: IPAddress, port: Int)
    ) -> UInt32? {
        for table in tables {
            if let owner = connected(client, to: server, in: TextLines(table)) { return owner }
        }
        return nil
    }

    package static func connected(
        _ client: (address: IPAddress, port: Int),
        to server: (address: IPAddress, port: Int),
        in lines: some Sequence<String>
    ) -> UInt32? {
        let ends = zip(spellings(client), spellings(server)).map { (local: $0, remote: $1) }
        let row = lines.lazy.compactMap { Row($0) }.first { row in
            row.state == .connected && ends.contains { $0.local == row.local && $0.remote == row.remote }
        }
        return row?.owner
    }

    /// How the system writes an address: in words of 32 bits, each in this machine's byte order. An IPv4 address may also be that of an IPv6
    /// socket.
    private static func spellings(_ end: (address: IPAddress, port: Int)) -> [String] {
        let bytes = end.address.bytes
        let words = stride(from: 0, to: bytes.count, by: 4).map { word in
            bytes[word..<word + 4].reversed().map(digits).joined()
        }
        let port = digits(UInt8(truncatingIfNeeded: end.port >> 8)) + digits(UInt8(truncatingIfNeeded: end.port))
        let text = words.joined()
        return (bytes.count == 4 ? [text, "0000000000000000FFFF0000" + text] : [text]).map { "\($0):\(port)" }
    }

    private static func digits(_ byte: UInt8) -> String {
        let text = String(byte, radix: 16, uppercase: true)
        return byte < 0x10 ? "0" + text : text
    }

    private struct Row {
        enum State { case listening, connected, other }

        let local: Substring
        let remote: Substring
        let state: State
        let owner: UInt32?

        /// nil for the heading, and for a line that is not a row.
        init?(_ line: String) {
            let fields = line.split(separator: " ")
            guard fields.count > 7, fields[1].contains(":") else { return nil }
            (local, remote, owner) = (fields[1], fields[2], UInt32(fields[7]))
            state = fields[3] == "0A" ? .listening : fields[3] == "01" ? .connected : .other
        }

        var port: Int? { local.lastIndex(of: ":").flatMap { Int(local[$0...].dropFirst(), radix: 16) } }
    }
}

/// The lines of a file that the system generates while it is read, such as a table in `/proc`. Empty if it cannot be read.
private final class TextLines: Sequence, IteratorProtocol {
    /// More than a table of 100,000 sockets needs. The rest is not read.
    private static let limit = 16 << 20

    private let descriptor: Int32
    private var count = 0
    private var buffer: [UInt8] = []
    /// Where the next line begins in the buffer.
    private var start = 0

    init(_ path: String) { descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC) }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func next() -> String? {
        while true {
            if let end = buffer[start...].firstIndex(of: 0x0A) {
                defer { start = end + 1 }
                return String(decoding: buffer[start..<end], as: UTF8.self)
            }
            guard readMore() else { return nil }
        }
    }

    private func readMore() -> Bool {
        guard descriptor >= 0, count < Self.limit else { return false }
        buffer.removeFirst(start)
        start = 0
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let size = unsafe systemRead(descriptor, &chunk, chunk.count)
            if size < 0, errno == EINTR { continue }
            guard size > 0 else { return false }
            count += size
            buffer += chunk[..<size]
            return true
        }
    }
}
