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
    /// How long a client has to take notice that its last answer is written.
    let linger = TimeAmount.seconds(2)

    init(_ limits: Limits) {
        header = TimeAmount(limits.headerTimeout)
        bodyIdle = TimeAmount(limits.bodyIdleTimeout)
        credential = TimeAmount(limits.credentialTimeout)
        connect = TimeAmount(limits.connectTimeout)
        response = TimeAmount(limits.responseTimeout)
        idle = TimeAmount(limits.idleTimeout)
    }
}
