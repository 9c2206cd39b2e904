/// Counts the frames that an HTTP/2 peer sends, and bounds those that carry no message.
///
/// Such a frame is cheap to send and costs work. What the connection has really done pays for them: a client that takes a large
/// response sends as many WINDOW_UPDATE frames as it likes, and measures the round trip with PING meanwhile, as clients of gRPC do.
/// CONTINUATION has a limit where blocks are put together, and is not counted here.
package struct HTTP2FrameMeter: Sendable {
    /// What a connection may send without doing anything for it, in each ``period``.
    package static let allowance = 1000
    package static let period = Duration.seconds(30)
    /// Maximum credit: a client may have a large response in flight, and send WINDOW_UPDATE for each KiB of it.
    package static let maximum = 65_536
    /// What the head of each message pays for: windows, a priority, a reset.
    package static let perMessage = 16
    /// SETTINGS change the windows of all streams, so each of them counts as several frames.
    package static let settingsCost = 5

    /// How many more frames may come.
    package private(set) var credit = allowance
    private var renewedAt: MonotonicTime

    package init(at now: MonotonicTime) { renewedAt = now }

    /// Content has left for the peer.
    package mutating func sent(_ count: Int) { pay(4 + count / 256) }

    /// Content has come for a request that can still take it. Other DATA pays for nothing: it would be free.
    package mutating func receivedContent() { pay(1) }

    /// A request has left for the peer.
    package mutating func sentRequest() { pay(Self.perMessage) }

    /// - Returns: Whether the connection may go on.
    @inline(__always)
    package mutating func receive(type: UInt8, at now: () -> MonotonicTime) -> Bool {
        switch HTTP2FrameType(rawValue: type) {
        case .data: pay(1)
        case .headers: pay(Self.perMessage)
        case .continuation: break
        case .settings: return spend(Self.settingsCost, at: now)
        default: return spend(1, at: now)
        }
        return true
    }

    private mutating func pay(_ count: Int) { credit = min(Self.maximum, credit + count) }

    private mutating func spend(_ cost: Int, at now: () -> MonotonicTime) -> Bool {
        credit -= cost
        guard credit < 0 else { return true }
        let now = now()
        guard now - renewedAt > Self.period else { return false }
        renewedAt = now
        credit = Self.allowance - cost
        return true
    }
}

/// Bounds how often a client may break the rules on one connection: each time costs work, and may end a request that has begun.
package struct FaultBudget: Sendable {
    package static let maximum = 200
    package static let period = Duration.seconds(30)

    private var count = 0
    private var begunAt: MonotonicTime?

    package init() {}

    /// - Returns: Whether the connection may go on.
    package mutating func spend(at now: MonotonicTime) -> Bool {
        if begunAt.map({ now - $0 > Self.period }) ?? true { (begunAt, count) = (now, 0) }
        count += 1
        return count <= Self.maximum
    }
}
