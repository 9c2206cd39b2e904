#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// Waits for sockets, never without a deadline.
enum SocketWait {
    /// - Returns: Whether the socket is ready, or has failed; false after the deadline.
    static func wait(for socket: Int32, _ events: Int16, until deadline: ContinuousClock.Instant) -> Bool {
        var entry = pollfd(fd: socket, events: events, revents: 0)
        while true {
            let count = unsafe poll(&entry, 1, milliseconds(until: deadline))
            if count > 0 { return true }
            if count == 0, ContinuousClock.now >= deadline { return false }
            if count < 0, errno != EINTR { return true }
        }
    }

    /// At least until the deadline, at most a minute.
    static func milliseconds(until deadline: ContinuousClock.Instant) -> Int32 {
        let rest = ContinuousClock.now.duration(to: deadline)
        guard rest > .zero else { return 0 }
        let (seconds, attoseconds) = rest.components
        return Int32(min(seconds, 59) * 1000 + min(attoseconds / 1_000_000_000_000_000, 999) + 1)
    }
}

/// Ends the wait of a thread from any other one.
final class WakeUp: Sendable {
    private let reader: Int32
    private let writer: Int32

    init() {
        var ends: [Int32] = [-1, -1]
        _ = unsafe pipe(&ends)
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        (reader, writer) = (ends[0], ends[1])
    }

    deinit {
        _ = close(reader)
        _ = close(writer)
    }

    func signal() {
        var byte: UInt8 = 1
        // A full pipe wakes as well.
        _ = unsafe write(writer, &byte, 1)
    }

    /// Returns when the socket has something to read, after ``signal()``, or at the deadline.
    ///
    /// - Returns: Whether the socket has something to read.
    func wait(beside socket: Int32?, until deadline: ContinuousClock.Instant) -> Bool {
        var entries = [
            pollfd(fd: reader, events: Int16(POLLIN), revents: 0),
            pollfd(fd: socket ?? -1, events: Int16(POLLIN), revents: 0),
        ]
        guard unsafe poll(&entries, 2, SocketWait.milliseconds(until: deadline)) > 0 else { return false }
        if entries[0].revents != 0 {
            var bytes = [UInt8](repeating: 0, count: 64)
            while unsafe read(reader, &bytes, bytes.count) == bytes.count {}
        }
        return entries[1].revents != 0
    }
}
