package import GatewayHTTP

/// A server without a route that a client may reach: by CONNECT, and bytes pass as they are; or with a plain request.
package struct TunnelDestination: Sendable {
    struct Dialled: Sendable {
        /// nil where a proxy has looked the name up, which does not say what it found.
        let address: IPAddress?
        /// This machine has it.
        let isOwn: Bool

        static let byProxy = Dialled()

        private init() { (address, isOwn) = (nil, false) }

        init(address: IPAddress, isOwn: Bool) { (self.address, self.isOwn) = (address, isOwn) }
    }

    /// The host in lower case, without a port, brackets and the dot of the root.
    package let host: String
    package let port: Int
    /// The client has written a name with that dot.
    let isRooted: Bool
    /// nil where none is known.
    package let client: String?
    /// The value of the field that proved who the client is; nil when none did.
    let proof: [UInt8]?
    /// Where the connection leads; nil before that.
    var dialled: Dialled?
    private let plan: ConnectPlan

    init(host: String, port: Int, isRooted: Bool, client: String?, proof: [UInt8]?, plan: ConnectPlan) {
        self.host = host
        self.port = port
        // A resolver takes an address with that dot for a name, which may lead elsewhere.
        let origin = Origin(scheme: .http, host: host, port: port)
        self.isRooted = isRooted && !origin.isAddress && !origin.isLoopback
        self.client = client
        self.proof = proof
        self.plan = plan
    }

    /// Whether that address may be dialled: one that the name had when it was judged, not one that it has later.
    ///
    /// - Parameter isOwn: This machine has it.
    package func admits(_ address: IPAddress, isOwn: Bool) -> Bool { plan.admits(address, of: host, isOwn: isOwn) }

    func admits(_ dialled: Dialled) -> Bool {
        dialled.address.map { admits($0, isOwn: dialled.isOwn) } ?? (refusalByProxy == nil)
    }

    /// Why a proxy is not asked for that server; nil where it may be.
    var refusalByProxy: GatewayProblem? { plan.refusalByProxy(of: host) }

    /// What the client's CONNECT had in `Via`; empty without.
    var via = ""

    /// What a tunnel leads to.
    var origin: Origin { Origin(scheme: .https, host: lookupName, port: port) }

    /// Where a plain request goes.
    var plainOrigin: Origin { Origin(scheme: .http, host: lookupName, port: port) }

    /// The name as it is resolved: with the dot of the root a resolver tries no search domain (RFC 1034 section 3.1).
    var lookupName: String { isRooted ? host + "." : host }

    /// Whether a plain request that came before would go to the same server now: a reload has come.
    ///
    /// - Parameter new: What becomes of the request now.
    func stillAdmitted(by new: TunnelDestination) -> Bool {
        guard new.host == host, new.port == port, new.isRooted == isRooted, new.client == client, let dialled else {
            return false
        }
        return new.admits(dialled)
    }

    /// Host and port as people write them.
    package var authority: String { Origin.hostAndPort(host, port) }
}

/// Which servers without a route a client may reach.
extension ConnectPlan {
    /// Why no connection to that server is made; nil where its addresses decide.
    ///
    /// - Parameters:
    ///   - host: In lower case, without a port.
    ///   - scheme: What the client asks for. Plain requests may ask for the port of `http`, whatever ``ports`` say.
    func refusal(host: String, port: Int, scheme: Origin.Scheme = .https) -> GatewayProblem? {
        let server = Origin(scheme: scheme, host: host, port: port)
        guard unrouted == .tunnel else {
            return Self.noRoute(server, "Add one, or set connect.unrouted: tunnel on this listener.")
        }
        guard ports.contains(port) || scheme == .http && port == scheme.defaultPort else {
            return Self.noRoute(server, "Port \(port) is not among connect.ports of this listener.")
        }
        if let address = IPAddress(host) {
            return admits(address, of: host, isOwn: false) ? nil : Self.prohibited(host)
        }
        let mayAdmit =
            allow.isEmpty
            || allow.contains { destination in
                if case .network = destination { return true }
                return destination.names(host)
            }
        return mayAdmit ? nil : Self.noRoute(server, "connect.allow of this listener does not name it.")
    }

    /// Whether that address may be dialled for that server.
    ///
    /// A name below another, and a name that nothing asks for, must not lead to this machine and its network: the name's owner
    /// says what it leads to.
    ///
    /// - Parameters:
    ///   - host: In lower case.
    ///   - isOwn: This machine has it.
    package func admits(_ address: IPAddress, of host: String, isOwn: Bool) -> Bool {
        var isNamed = allow.isEmpty
        for destination in allow {
            switch destination {
            case .host(let name): if name == Origin.unrooted(host) { return true }
            case .network(let network): if network.contains(address) { return true }
            case .namesBelow: isNamed = isNamed || destination.names(host)
            }
        }
        return isNamed && !isOwn && PublicAddress.contains(address)
    }

    /// Why a proxy is not asked for that server; nil where it may be. ``refusal(host:port:scheme:)`` was asked before.
    ///
    /// The proxy looks the name up, so that nothing is known of its addresses here: no network admits a name, and the proxy has to
    /// keep names that lead into its own network from clients. A name of this machine would mean the proxy's machine.
    func refusalByProxy(of host: String) -> GatewayProblem? {
        guard IPAddress(host) == nil else { return nil }
        if allow.contains(.host(Origin.unrooted(host))) { return nil }
        if !Self.isLocal(host), !Self.mayBeAddress(host), allow.isEmpty || allow.contains(where: { $0.names(host) }) {
            return nil
        }
        let detail = "A proxy would look up \(host). To allow that, name the host in connect.allow of this listener."
        return GatewayProblem(.destinationProhibited, detail)
    }

    /// A name of this machine, or one that only the files and search domains of a network know, such as `ip6-localhost`.
    private static func isLocal(_ host: String) -> Bool {
        let host = Origin.unrooted(host)
        return !host.contains(".") || host.hasSuffix(".localdomain")
            || Origin(scheme: .http, host: host, port: 80).isLoopback
    }

    /// Some resolvers read names such as `127.1` and `0x7f000001` as addresses (inet_aton(3)).
    static func mayBeAddress(_ host: String) -> Bool {
        let last = Origin.unrooted(host).split(separator: ".", omittingEmptySubsequences: false).last ?? ""
        return host.contains(":") || last.isEmpty || last.utf8.allSatisfy(\.isDigit)
            || last.hasPrefix("0x") && last.utf8.dropFirst(2).allSatisfy(\.isHexDigit)
    }

    private static func noRoute(_ server: Origin, _ advice: String) -> GatewayProblem {
        let name = "\(server.scheme.rawValue)://\(Origin.hostAndPort(server.host, server.port))"
        return GatewayProblem(.noRoute, "No route leads to \(name). \(advice)")
    }

    /// - Parameter host: It is, or resolves to, an address that it must not have.
    static func prohibited(_ host: String) -> GatewayProblem {
        let detail = "The address of \(host) is not public. To allow it, name it in connect.allow of this listener."
        return GatewayProblem(.destinationProhibited, detail)
    }
}

extension ConnectPlan.Destination {
    /// Whether it names that host, whatever the addresses.
    fileprivate func names(_ host: String) -> Bool {
        switch self {
        case .host(let name): name == Origin.unrooted(host)
        case .namesBelow(let suffix): suffix.isEmpty || Origin.unrooted(host).hasSuffix(suffix)
        case .network: false
        }
    }
}
