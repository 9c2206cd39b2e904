import GatewayCore
import NIOCore

/// The time as the handlers of one event loop see it. The clock is read once for the bytes of one read.
final class LoopClock {
    private var reading: NIODeadline?

    var now: NIODeadline { reading ?? .now() }

    /// Bytes have come; whatever is done with them happens now.
    func begin() { reading = .now() }

    /// Must follow ``begin()`` before the loop does anything else: a reading that is kept makes deadlines too early.
    func end() { reading = nil }
}

extension MonotonicTime {
    init(_ time: NIODeadline) { self.init(nanoseconds: Int64(clamping: time.uptimeNanoseconds)) }
}

extension NIODeadline {
    init(_ time: MonotonicTime) { self = .uptimeNanoseconds(UInt64(max(0, time.nanoseconds))) }
}
