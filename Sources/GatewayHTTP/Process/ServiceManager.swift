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

/// The open sockets that a service manager passes to a process (sd_listen_fds(3)).
package enum PassedDescriptors {
    /// The first is always this one.
    private static let first: Int32 = 3
    private static let maximumCount: Int32 = 64

    /// - Parameters:
    ///   - environment: `LISTEN_PID` and `LISTEN_FDS` count.
    ///   - process: The number of this process: what was passed to another one is not ours.
    /// - Returns: The descriptors; empty when none were passed.
    package static func range(environment: [String: String], process: Int32) -> Range<Int32> {
        guard environment["LISTEN_PID"].flatMap({ Int32($0) }) == process,
            let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), (1...maximumCount).contains(count)
        else { return first..<first }
        return first..<first + count
    }
}

/// What SIGHUP means to a gateway: its terminal was closed, or somebody asks for a reload.
package struct HangUpRule: Hashable, Sendable {
    package enum Action: Hashable, Sendable {
        case reload
        case stop
    }

    private let wasIgnored: Bool
    private let hadTerminal: Bool

    /// - Parameters:
    ///   - wasIgnored: The process was started with the signal ignored, as `nohup` does it.
    ///   - hadTerminal: Standard input was a terminal when the process started.
    package init(wasIgnored: Bool, hadTerminal: Bool) {
        self.wasIgnored = wasIgnored
        self.hadTerminal = hadTerminal
    }

    /// An inherited ignore stays: the process is meant to outlive the terminal.
    package var isHandled: Bool { !wasIgnored }

    /// - Parameter terminalIsGone: Standard input answers with EIO, as a terminal does once it was closed. The terminal of a
    ///   signal that a person sent still answers.
    package func action(terminalIsGone: Bool) -> Action { hadTerminal && terminalIsGone ? .stop : .reload }
}
