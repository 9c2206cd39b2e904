import Foundation
import GatewayFiles

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The log of the system, as syslog(3) reaches it, with a deadline and with an answer.
enum SystemLog {
    #if canImport(Darwin)
        static let socketPath = "/var/run/syslog"
    #else
        static let socketPath = "/dev/log"
    #endif

    /// Facility `authpriv`, severity `notice` (RFC 3164 section 4.1.1).
    private static let priority = 10 * 8 + 5

    /// Waits for a second at most.
    ///
    /// - Parameter text: One line.
    /// - Returns: Why the system's log has not taken it; nil when it has.
    static func note(_ text: String, tag: String, to path: String = socketPath) -> String? {
        var failure = ""
        // Some daemons have a socket of streams there.
        for type in socketTypes {
            let message = "<\(priority)>\(tag)[\(getpid())]: \(text)" + (type == socketTypes[0] ? "" : "\n")
            let code = send(Array(message.utf8), type, to: path)
            guard code != 0 else { return nil }
            failure = code == ENOENT ? "there is no \(path)" : "\(path): \(SystemError.text(code))"
            guard code == EPROTOTYPE else { break }
        }
        return failure
    }

    #if canImport(Glibc)
        private static let socketTypes = [Int32(SOCK_DGRAM.rawValue), Int32(SOCK_STREAM.rawValue)]
    #else
        private static let socketTypes = [SOCK_DGRAM, SOCK_STREAM]
    #endif

    /// - Returns: 0, or the `errno`.
    private static func send(_ message: [UInt8], _ type: Int32, to path: String) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let name = Array(path.utf8)
        guard name.count < MemoryLayout.size(ofValue: address.sun_path) else { return ENAMETOOLONG }
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: name) }
        let descriptor = socket(AF_UNIX, type, 0)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        guard fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0, fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0 else {
            return errno
        }
        let connected = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard connected == 0 else { return errno }
        var waited = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard unsafe poll(&waited, 1, 1000) == 1 else { return ETIMEDOUT }
        return unsafe write(descriptor, message, message.count) == message.count ? 0 : errno
    }
}
