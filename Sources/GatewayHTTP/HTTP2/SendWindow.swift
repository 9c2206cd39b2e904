/// How many bytes of content the peer lets us send, on one stream or on the connection (RFC 9113 section 6.9).
package struct SendWindow: Hashable, Sendable {
    /// The window until the peer's settings say otherwise.
    package static let initial = 65_535
    package static let maximum = (1 << 31) - 1

    /// Below zero where the peer's settings have made it smaller than what was sent before.
    package private(set) var size: Int

    package init(_ size: Int = SendWindow.initial) { self.size = size }

    package var available: Int { max(0, size) }

    package mutating func spend(_ count: Int) {
        assert(count >= 0 && count <= available, "More is sent than the peer allows.")
        size -= count
    }

    /// - Parameter increment: The increment of a WINDOW_UPDATE, or what the peer's settings change; those can be below zero.
    /// - Returns: Whether the window is still one that a peer may ask for.
    package mutating func grow(by increment: Int) -> Bool {
        size += increment
        assert(size >= -Self.maximum, "More was sent than a window can allow.")
        return size <= Self.maximum
    }
}

/// How many bytes of content we let the peer send, on one stream or on the connection (RFC 9113 section 6.9).
///
/// What has come counts until the other side of the exchange has taken it. So a slow receiver stops its sender, and what waits
/// here has a bound.
package struct ReceiveWindow: Hashable, Sendable {
    /// The most that the peer may have sent and nobody has taken yet.
    private var target: Int
    /// What the peer may still send.
    private var size: Int
    /// What has come and was not taken yet.
    package private(set) var held = 0

    package init(target: Int, size: Int) {
        self.target = target
        self.size = size
    }

    /// - Returns: Whether the peer was allowed to send that.
    package mutating func receive(_ count: Int) -> Bool {
        assert(count >= 0, "A negative number of bytes was received.")
        size -= count
        held += count
        return size >= 0
    }

    /// The other side has taken it, or it is thrown away.
    package mutating func take(_ count: Int) {
        assert(count >= 0 && count <= held, "More bytes are taken than were received.")
        held -= count
        assert(held + max(size, 0) <= SendWindow.maximum, "The peer may send more than a window holds.")
    }

    /// Our own settings have come into force.
    package mutating func change(by delta: Int) {
        target += delta
        size += delta
    }

    /// The increment of the next WINDOW_UPDATE, which counts as sent; nil while it is too small to be worth a frame.
    package mutating func credit() -> Int? {
        let increment = target - size - held
        guard increment > 0, increment >= target / 2 else { return nil }
        size += increment
        assert(size <= SendWindow.maximum, "The peer may send more than a window holds.")
        return increment
    }
}
