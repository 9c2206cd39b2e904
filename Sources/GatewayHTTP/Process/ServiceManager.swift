/// The service manager that started this process and wants to hear of it (sd_notify(3)).
package struct ServiceManager: Hashable, Sendable {
    package enum State: String, Sendable {
        case ready = "READY=1"
        case stopping = "STOPPING=1"
        case watchdog = "WATCHDOG=1"
    }

    /// The bytes of `sun_path`: a path, or a NUL and a name (unix(7), abstract sockets).
    package let socket: [UInt8]
    /// How often ``State/watchdog`` is to be sent; nil for never.
    package let watchdogInterval: Duration?

    /// What fits into `sun_path`, with the NUL behind a path.
    static let maximumBytes = 107

    /// - Parameters:
    ///   - environment: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` count.
    ///   - process: The number of this process: the watchdog of another one is not ours.
    /// - Returns: nil when no service manager asks, or on a kind of socket that is not a unix socket.
    package init?(environment: [String: String], process: Int32) {
        var socket = Array((environment["NOTIFY_SOCKET"] ?? "").utf8)
        guard (2...Self.maximumBytes).contains(socket.count), let first = socket.first else { return nil }
        switch first {
        case UInt8(ascii: "/"): break
        case UInt8(ascii: "@"): socket[0] = 0
        default: return nil
        }
        self.socket = socket
        let isOurs = environment["WATCHDOG_PID"].map { Int32($0) == process } ?? true
        let limit = environment["WATCHDOG_USEC"].flatMap { Int64($0) } ?? 0
        // Twice within the limit, as sd_watchdog_enabled(3) recommends.
        watchdogInterval = isOurs && limit > 1 ? .microseconds(limit / 2) : nil
    }
}
