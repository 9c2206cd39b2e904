import GatewayHTTP

/// What a client begins with, behind a CONNECT to a server that a plain route leads to.
///
/// Clients of `ws://` send a plain request there. Others may speak any protocol, and wait for the server to speak first.
enum TunnelOpening: Hashable, Sendable {
    case unfinished
    /// A request of HTTP, which the route serves.
    case request
    case other

    /// A client that is silent for so long waits for the server to speak, as those of SSH and SMTP do.
    static let patience = Duration.seconds(1)
    /// The longest method that is looked for; a space follows it.
    private static let longestMethod = 24
    /// The most bytes of line ends before a request. The decoder of the head decides whether so many are valid.
    private static let longestBlank = 4
    private static let schemes = ["http://", "https://"].map { Array($0.utf8) }

    /// - Parameter bytes: All that has come.
    static func judge(_ bytes: borrowing Span<UInt8>) -> TunnelOpening {
        var start = 0
        // Servers skip empty lines before a request (RFC 9112 section 2.2), so they must not hide one.
        while start < bytes.count, bytes[start] == 0x0D || bytes[start] == 0x0A {
            start += 1
            guard start <= longestBlank else { return .request }
        }
        var index = start
        while index < bytes.count, isMethodByte(bytes[index]) {
            index += 1
            guard index - start <= longestMethod else { return .other }
        }
        guard index < bytes.count else { return .unfinished }
        guard index > start, bytes[index] == 0x20 else { return .other }
        return judgeTarget(bytes, from: index + 1)
    }

    private static func judgeTarget(_ bytes: borrowing Span<UInt8>, from start: Int) -> TunnelOpening {
        guard start < bytes.count else { return .unfinished }
        // A path, or `*`.
        if bytes[start] == 0x2F || bytes[start] == 0x2A { return .request }
        var isUnfinished = false
        for scheme in schemes {
            let count = min(bytes.count - start, scheme.count)
            guard bytes.equalsLowercased(start..<start + count, Array(scheme.prefix(count))) else { continue }
            guard count < scheme.count else { return .request }
            isUnfinished = true
        }
        return isUnfinished ? .unfinished : .other
    }

    private static func isMethodByte(_ byte: UInt8) -> Bool { (0x41...0x5A).contains(byte) || byte == 0x2D }

    /// The answer to ``other`` where no tunnel is allowed.
    ///
    /// - Parameter origin: The server that the CONNECT named.
    static func noRequest(to origin: InterceptedOrigin) -> GatewayProblem {
        GatewayProblem(
            .requestRefused,
            "A route leads to http://\(Origin.hostAndPort(origin.host, origin.port)), and what follows the CONNECT is not HTTP."
        )
    }
}
