package import GatewayHTTP

/// What a listener is, and a connection that came to it, as far as admission is concerned.
///
/// A class, so that a request passes one reference on.
package final class ConnectionContext: Sendable {
    package enum Reach: Sendable {
        /// A loopback address: every browser on the machine can be led to it.
        case loopback
        /// Any other address.
        case network
        /// A unix socket: the kernel says who calls.
        case unix
        /// Another proxy asks about a request that it has got (`listeners.authz`).
        case engine
    }

    package let reach: Reach
    /// nil on unix sockets.
    package let port: Int?
    /// Takes CONNECT, and answers in place of upstreams that routes have.
    package let intercepts: Bool
    package let isTLS: Bool
    /// The server of the CONNECT that was taken on this connection; nil without one.
    package let intercepted: InterceptedOrigin?
    /// The name of the engine that asks here; nil where clients send requests.
    package let engine: String?
    /// Who the client is by the certificate that it has shown (`tls.client_ca`); nil without one.
    package let peer: PeerIdentity?
    /// Finds what the configuration says of it.
    let address: ListenerPlan.Address?

    /// Where clients see the listener, where the configuration says so.
    package let publicURL: GatewayURL?

    package init(
        reach: Reach,
        port: Int?,
        intercepts: Bool = false,
        isTLS: Bool = false,
        publicURL: GatewayURL? = nil,
        intercepted: InterceptedOrigin? = nil,
        engine: String? = nil,
        peer: PeerIdentity? = nil,
        address: ListenerPlan.Address? = nil
    ) {
        self.engine = engine
        self.reach = reach
        self.port = port
        self.intercepts = intercepts
        self.isTLS = isTLS
        self.publicURL = publicURL
        self.intercepted = intercepted
        self.peer = peer
        self.address = address
    }

    /// ``peer``, where that is a client: an engine's certificate says nothing of the clients that it asks for.
    var clientPeer: PeerIdentity? { engine == nil ? peer : nil }

    /// The same listener for a connection on which CONNECT was taken.
    func intercepting(_ origin: InterceptedOrigin) -> ConnectionContext { with(origin, peer) }

    /// The same listener for a connection whose client has shown a certificate.
    func identifying(_ peer: PeerIdentity) -> ConnectionContext { with(intercepted, peer) }

    /// The same listener for a request that its client's certificate does not prove.
    var withoutPeer: ConnectionContext { peer == nil ? self : with(intercepted, nil) }

    private func with(_ intercepted: InterceptedOrigin?, _ peer: PeerIdentity?) -> ConnectionContext {
        ConnectionContext(
            reach: reach,
            port: port,
            intercepts: intercepts,
            isTLS: isTLS,
            publicURL: publicURL,
            intercepted: intercepted,
            engine: engine,
            peer: peer,
            address: address
        )
    }
}

extension AccessPlan {
    /// Whether a request needs a client token on such a listener, where its route names no clients.
    package func requiresClient(on reach: ConnectionContext.Reach) -> Bool {
        switch requireClient {
        case .true: true
        case .false: reach == .network
        // An engine has proved itself; whether its clients have to is for `access.clients` to say.
        case .auto: reach == .network || ((reach == .loopback || reach == .engine) && !clients.isEmpty)
        }
    }
}

/// The server in whose place the gateway answers on a connection. The client has named it by CONNECT, or in its TLS hello.
package final class InterceptedOrigin: Sendable {
    /// The name of the server in lower case, without a port.
    package let host: String
    package let port: Int
    /// `http` for a connection without TLS inside, to a server that a plain route leads to.
    package let scheme: Origin.Scheme
    let hostBytes: [UInt8]
    /// As a browser writes it, for a page of the name as it is and for one of the name with the dot of the root.
    private let spellings: [[UInt8]]
    /// The value of the field that proved who the client is; nil when none did. It counts for each request of the connection, as
    /// long as the configuration knows it.
    let proof: [UInt8]?
    /// The port of the listener that the client has taken for that server; nil behind a CONNECT.
    let listenerPort: Int?

    package init(
        scheme: Origin.Scheme = .https,
        host: String,
        port: Int,
        proof: [UInt8]? = nil,
        listenerPort: Int? = nil
    ) {
        self.scheme = scheme
        self.listenerPort = listenerPort
        self.host = Origin.unrooted(IPAddress.hostName(host.lowercased()))
        self.port = port
        self.proof = proof
        hostBytes = Array(self.host.utf8)
        let suffix = port == scheme.defaultPort ? "" : ":\(port)"
        spellings = [self.host, self.host + "."]
            .map { Array("\(scheme.rawValue)://\(Origin.urlHost($0))\(suffix)".utf8) }
    }

    func isOrigin(_ value: Range<Int>, of bytes: borrowing Span<UInt8>) -> Bool {
        for spelling in spellings where bytes.equalsLowercased(value, spelling) { return true }
        return false
    }

    /// Whether a request on the connection is for this server. `Host` leaves out the port of its scheme.
    func isNamed(by authority: Authority, in bytes: borrowing Span<UInt8>) -> Bool {
        let named = authority.port ?? scheme.defaultPort
        guard named == port || named == listenerPort else { return false }
        return bytes.equalsLowercased(authority.host, hostBytes)
            || IPAddress.otherSpelling(bytes, authority.host) == hostBytes
    }
}
