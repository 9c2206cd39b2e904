package import GatewayHTTP
import Glibc

/// The system's clocks: `CLOCK_BOOTTIME`, which counts suspended time, and `CLOCK_REALTIME`.
package final class SystemClock: GatewayClock {
    package init() {}

    package func now() -> Moment {
        let wall = Self.read(CLOCK_REALTIME)
        return Moment(
            monotonic: monotonic(),
            wall: UnixTime(milliseconds: wall.seconds * 1000 + wall.nanoseconds / 1_000_000)
        )
    }

    package func monotonic() -> MonotonicTime {
        let boot = Self.read(CLOCK_BOOTTIME)
        return MonotonicTime(nanoseconds: boot.seconds * 1_000_000_000 + boot.nanoseconds)
    }

    package func sleep(for duration: Duration) async throws {
        try await Task.sleep(for: duration, clock: .continuous)
    }

    /// Both clocks exist on every Linux since 2.6.39, so that the call cannot fail.
    private static func read(_ clock: clockid_t) -> (seconds: Int64, nanoseconds: Int64) {
        var time = timespec()
        unsafe clock_gettime(clock, &time)
        return (Int64(time.tv_sec), Int64(time.tv_nsec))
    }
}

/// Bounds what may never end, such as a read from a disk that does not answer.
package enum Deadline {
    /// - Returns: nil when it took longer; it is cancelled, and its end is not waited for.
    package static func value<Value: Sendable>(
        within limit: Duration,
        of work: @escaping @Sendable () async -> Value
    ) async -> Value? {
        let (results, continuation) = AsyncStream.makeStream(of: Value?.self, bufferingPolicy: .bufferingOldest(1))
        let task = Task { _ = continuation.yield(await work()) }
        let watchdog = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            continuation.yield(nil)
        }
        defer {
            task.cancel()
            watchdog.cancel()
        }
        for await result in results { return result }
        return nil
    }
}
