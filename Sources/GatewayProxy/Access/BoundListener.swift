package import GatewayHTTP

/// A listener of the gateway, as clients reach it: a ``ListenerPlan`` with the port that the system gave.
///
/// It is compared and made into URLs. What a request is judged by is a ``ConnectionContext``, of which each connection has one.
package struct BoundListener: Hashable, Sendable {
    package let address: ListenerPlan.Address
    /// The one that is bound, also where the configuration asks for port 0; nil on a unix socket.
    package let port: Int?
    package let isTLS: Bool
    package let intercepts: Bool
    package let publicURL: GatewayURL?
    /// ``ConnectionContext/engine``
    package let engine: String?

    package init(
        address: ListenerPlan.Address,
        port: Int?,
        isTLS: Bool,
        intercepts: Bool = false,
        publicURL: GatewayURL? = nil,
        engine: String? = nil
    ) {
        self.engine = engine
        self.address = address
        self.port = port
        self.isTLS = isTLS
        self.intercepts = intercepts
        self.publicURL = publicURL
    }

    /// The listener as the configuration has it.
    package init(_ plan: ListenerPlan) {
        let port: Int? = if case .tcp(_, let port) = plan.address { port } else { nil }
        self.init(plan, boundPort: port)
    }

    /// - Parameter boundPort: The one that the system gave; nil on a unix socket.
    package init(_ plan: ListenerPlan, boundPort: Int?) {
        self.init(
            address: plan.address,
            port: boundPort,
            isTLS: plan.speaksTLS,
            intercepts: plan.intercepts,
            publicURL: plan.publicURL,
            engine: plan.engine?.name
        )
    }

    package var connectionContext: ConnectionContext {
        ConnectionContext(
            reach: reach,
            port: port,
            intercepts: intercepts,
            isTLS: isTLS,
            publicURL: publicURL,
            engine: engine,
            address: address
        )
    }

    private var reach: ConnectionContext.Reach {
        if engine != nil { return .engine }
        guard case .tcp(let host, _) = address else { return .unix }
        return Origin(scheme: .http, host: host, port: 80).isLoopback ? .loopback : .network
    }

    /// The listener as a client names it in a URL; `localhost` for a socket, which has no name of its own.
    package var authority: String {
        guard case .tcp(let host, _) = address, let port else { return "localhost" }
        return Origin.hostAndPort(ListenerPlan.Address.anyHosts.contains(host) ? "127.0.0.1" : host, port)
    }

    /// A URL that leads here, or the path of the socket.
    package var text: String {
        if case .unix(let path, _) = address { return "unix:\(path)" }
        return "\(isTLS ? "https" : "http")://\(authority)"
    }

    /// As ``text``, with the address that is bound, also where it stands for all addresses.
    package var boundText: String {
        guard case .tcp(let host, let port) = address else { return text }
        return Origin(scheme: isTLS ? .https : .http, host: host, port: self.port ?? port).description
    }

    /// Whether a URL with this host and port leads here.
    func isMeant(by origin: Origin) -> Bool { address.isMeant(by: origin, port: port) }

    /// Other machines reach it, perhaps by a name that the configuration does not know.
    func mayHaveName(in origin: Origin) -> Bool {
        reach == .network && origin.port == port && !origin.isLoopback
    }

    func isSocket(_ path: String) -> Bool {
        if case .unix(let own, _) = address { own == path } else { false }
    }
}
