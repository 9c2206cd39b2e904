import GatewayHTTP
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The deadlines among the limits, in the unit of the event loops.
struct Timeouts: Sendable {
    let header: TimeAmount
    let bodyIdle: TimeAmount
    let credential: TimeAmount
    let connect: TimeAmount
    let response: TimeAmount
    let idle: TimeAmount
    let keepAlive: KeepAlive
    /// How long a client has to take notice that its last answer is written, counted from the last that came of it.
    let linger = TimeAmount.seconds(2)
    /// The same in all: a client that first sends all it has reads its answer after that.
    let lingerInAll = TimeAmount.seconds(30)
    /// How long the other end of TLS has to answer a close_notify before the connection is closed all the same.
    static let tlsShutdown = TimeAmount.seconds(1)

    init(_ limits: Limits) {
        header = TimeAmount(limits.headerTimeout)
        bodyIdle = TimeAmount(limits.bodyIdleTimeout)
        credential = TimeAmount(limits.credentialTimeout)
        connect = TimeAmount(limits.connectTimeout)
        response = TimeAmount(limits.responseTimeout)
        idle = TimeAmount(limits.idleTimeout)
        keepAlive = KeepAlive(limits)
    }
}

/// `limits.keepalive` as the options of a TCP socket. Sockets that a listener accepts have those of the listener.
struct KeepAlive: Hashable, Sendable {
    /// Zero turns it off.
    private let seconds: SocketOptionValue

    init(_ limits: Limits) { seconds = SocketOptionValue(clamping: limits.keepAlive.secondsRoundedUp) }

    func set(on channel: any Channel) throws {
        guard let options = channel.syncOptions else { return }
        try options.setOption(.socketOption(.so_keepalive), value: seconds > 0 ? 1 : 0)
        guard seconds > 0 else { return }
        try options.setOption(.tcpOption(Self.idle), value: seconds)
        // Unanswered, the last probe ends the connection after twice the time.
        try options.setOption(.tcpOption(.init(rawValue: TCP_KEEPINTVL)), value: max(1, seconds / Self.probes))
        try options.setOption(.tcpOption(.init(rawValue: TCP_KEEPCNT)), value: Self.probes)
    }

    private static let probes: SocketOptionValue = 3

    #if canImport(Darwin)
        private static let idle = NIOBSDSocket.Option(rawValue: TCP_KEEPALIVE)
    #else
        private static let idle = NIOBSDSocket.Option(rawValue: TCP_KEEPIDLE)
    #endif
}
