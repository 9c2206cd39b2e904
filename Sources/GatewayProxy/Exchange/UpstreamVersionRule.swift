import GatewayHTTP

/// Which version of HTTP a request goes to its upstream in, where the route may speak HTTP/2 (`protocol`).
///
/// HTTP/2 has no Upgrade (RFC 9113 section 8.6), except for a WebSocket (RFC 8441).
enum UpstreamVersionRule {
    /// Whether only HTTP/1.1 can carry the request.
    ///
    /// - Parameter lacksWebSocket: The upstream is known not to accept WebSockets over HTTP/2, or the request is signed.
    static func needsHTTP1(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ version: UpstreamProtocol,
        lacksWebSocket: Bool
    ) -> Bool {
        guard head.wantsUpgrade else { return false }
        if WebSocketHandshake.accept(head, bytes) == nil { return true }
        return mayFallBack(version) && lacksWebSocket
    }

    /// Whether a request that HTTP/2 did not take may go by HTTP/1.1.
    static func mayFallBack(_ version: UpstreamProtocol) -> Bool { version == .auto }

    /// What the client is told when its WebSocket must go by HTTP/2 and the upstream takes none there.
    static let takesNoWebSocket =
        "It does not accept WebSockets over HTTP/2 (SETTINGS_ENABLE_CONNECT_PROTOCOL, RFC 8441)."
        + " Set protocol of the route to auto or http1."

    static let signsNoWebSocket =
        "A WebSocket over HTTP/2 cannot be signed, because it is opened with another method (RFC 8441)."
        + " Set protocol of the route to auto or http1."

    /// What a client that asks for a WebSocket in HTTP/2 is told when the response opens none.
    static func opensNoWebSocket(status: Int) -> String {
        "It answered the WebSocket request with \(status), which does not open one."
    }
}

/// Remembers that an upstream wanted HTTP/1.1 for a request (HTTP_1_1_REQUIRED, RFC 9113 section 7).
struct HTTP1Fallback: Sendable {
    /// After this time the upstream is asked for HTTP/2 again.
    static let lifetime = Duration.seconds(600)

    private var endsAt: MonotonicTime?

    init() {}

    mutating func begin(at now: MonotonicTime) { endsAt = now + Self.lifetime }

    /// - Parameter now: Read only after a demand.
    func holds(at now: @autoclosure () -> MonotonicTime) -> Bool { endsAt.map { now() < $0 } ?? false }
}
