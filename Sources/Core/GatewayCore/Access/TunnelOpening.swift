/// What a client begins with, behind a CONNECT to a server that a plain route leads to.
///
/// Clients of `ws://` send a plain request there. Others may speak any protocol, and wait for the server to speak first.
package enum TunnelOpening: Hashable, Sendable {
    case unfinished
    /// A request of HTTP, which the route serves.
    case request
    case other

    /// A client that is silent for so long waits for the server to speak, as those of SSH and SMTP do.
    package static let patience = Duration.seconds(1)
    /// Of a method, which a space follows.
    private static let longestMethod = 24

    /// - Parameter bytes: All that has come.
    package static func judge(_ bytes: borrowing Span<UInt8>) -> TunnelOpening {
        var index = 0
        while index < bytes.count, isMethodByte(bytes[index]) {
            index += 1
            guard index <= longestMethod else { return .other }
        }
        guard index < bytes.count else { return .unfinished }
        guard index > 0, bytes[index] == 0x20 else { return .other }
        guard index + 1 < bytes.count else { return .unfinished }
        // A path, `*`, or the scheme of an absolute target.
        switch bytes[index + 1] {
        case 0x2F, 0x2A, 0x68, 0x48: return .request
        default: return .other
        }
    }

    private static func isMethodByte(_ byte: UInt8) -> Bool { (0x41...0x5A).contains(byte) || byte == 0x2D }

    /// The answer to ``other`` where no tunnel is allowed.
    ///
    /// - Parameter origin: The server that the CONNECT named.
    package static func noRequest(to origin: InterceptedOrigin) -> GatewayProblem {
        GatewayProblem(
            .requestRefused,
            "A route leads to http://\(Origin.hostAndPort(origin.host, origin.port)), and what follows the CONNECT is not HTTP."
        )
    }
}
