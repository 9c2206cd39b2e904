import GatewayCore
import NIOCore

/// The deadlines among the limits, in the unit of the event loops.
struct Timeouts: Sendable {
    let header: TimeAmount
    let bodyIdle: TimeAmount
    let credential: TimeAmount
    let connect: TimeAmount
    let response: TimeAmount
    let idle: TimeAmount
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
    }
}
