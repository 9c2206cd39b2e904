/// Counts the frames that an HTTP/2 peer sends before they are read, and bounds those that carry no message.
///
/// Such a frame is cheap to send and costs work. What the connection has really done pays for them: a client that takes a large
/// response sends as many WINDOW_UPDATE frames as it likes, and measures the round trip with PING meanwhile, as clients of gRPC do.
/// CONTINUATION has a limit of the library's own, and is not counted here.
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
    /// The start of a frame whose head is not whole, after it the rest of the payload, which is not looked at.
    private var head: [UInt8] = []
    private var rest: Int

    private static let preface = 24
    private static let headSize = 9

    /// - Parameter isOfClient: The peer is a client, whose frames come behind the preface (RFC 9113 section 3.4).
    package init(at now: MonotonicTime, isOfClient: Bool = true) {
        renewedAt = now
        rest = isOfClient ? Self.preface : 0
    }

    /// Content has left for the peer.
    package mutating func sent(_ count: Int) { pay(4 + count / 256) }

    /// A request has left for the peer.
    package mutating func sentRequest() { pay(Self.perMessage) }

    /// - Returns: Whether the connection may go on.
    package mutating func receive(_ bytes: borrowing Span<UInt8>, at now: () -> MonotonicTime) -> Bool {
        defer { checkInvariants() }
        var index = 0
        while index < bytes.count {
            if rest > 0 {
                let skipped = min(rest, bytes.count - index)
                rest -= skipped
                index += skipped
                continue
            }
            guard head.isEmpty, bytes.count - index >= Self.headSize else {
                head.append(bytes[index])
                index += 1
                guard head.count == Self.headSize else { continue }
                let whole = head
                head = []
                guard count(whole.span, at: 0, now) else { return false }
                continue
            }
            guard count(bytes, at: index, now) else { return false }
            index += Self.headSize
        }
        return true
    }

    private mutating func count(_ bytes: borrowing Span<UInt8>, at start: Int, _ now: () -> MonotonicTime) -> Bool {
        rest = Int(bytes[start]) << 16 | Int(bytes[start + 1]) << 8 | Int(bytes[start + 2])
        return receive(type: bytes[start + 3], at: now)
    }

    /// - Returns: Whether the connection may go on.
    @inline(__always)
    package mutating func receive(type: UInt8, at now: () -> MonotonicTime) -> Bool {
        switch type {
        case 0x00: pay(1)
        case 0x01: pay(Self.perMessage)
        case 0x09: break
        case 0x04: return spend(Self.settingsCost, at: now)
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

    private func checkInvariants() {
        assert(credit <= Self.maximum, "A connection has more credit than there may be.")
        assert(head.count < Self.headSize, "The head of a frame is whole, and was not looked at.")
        assert(rest >= 0 && (rest == 0 || head.isEmpty), "A frame begins before the end of the last one.")
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
