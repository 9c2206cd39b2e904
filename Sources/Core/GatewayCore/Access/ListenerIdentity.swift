/// What a listener is, as far as admission is concerned.
package struct ListenerIdentity: Sendable {
    package enum Reach: Sendable {
        /// A loopback address: every browser on the machine can be led to it.
        case loopback
        /// Any other address.
        case network
        /// A unix socket: the kernel says who calls.
        case unix
    }

    package let reach: Reach
    /// nil on unix sockets.
    package let port: Int?

    package init(reach: Reach, port: Int?) {
        self.reach = reach
        self.port = port
    }

    package init(_ plan: ListenerPlan, boundPort: Int?) {
        switch plan.address {
        case .unix: self.init(reach: .unix, port: nil)
        case .tcp(let host, _):
            let isLoopback = Origin(scheme: .http, host: host, port: 80).isLoopback
            self.init(reach: isLoopback ? .loopback : .network, port: boundPort)
        }
    }
}

extension AccessPlan {
    /// Whether a request needs a client token on such a listener, where its route names no clients.
    package func requiresClient(on reach: ListenerIdentity.Reach) -> Bool {
        switch requireClient {
        case .true: true
        case .false: reach == .network
        case .auto: reach == .network || (reach == .loopback && !clients.isEmpty)
        }
    }
}
