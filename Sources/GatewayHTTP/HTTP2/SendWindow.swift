/// How many bytes of content the peer lets us send, on one stream or on the connection (RFC 9113 section 6.9).
package struct SendWindow: Hashable, Sendable {
    /// Until the peer's settings say otherwise.
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

    /// - Parameter increment: Of a WINDOW_UPDATE, or what the peer's settings change; those can be below zero.
    /// - Returns: Whether the window is still one that a peer may ask for.
    package mutating func grow(by increment: Int) -> Bool {
        size += increment
        assert(size >= -Self.maximum, "More was sent than a window can allow.")
        return size <= Self.maximum
    }
}
