/// A listener that clients can use as their proxy.
package struct ProxyEndpoint: Hashable, Sendable, Codable {
    /// Without brackets.
    package var host: String
    /// The real one.
    package var port: Int
    package var isTLS: Bool
    /// Takes CONNECT for hosts of routes.
    package var intercepts: Bool
    /// Passes CONNECT for hosts without a route, where `connect.allow` permits it.
    package var tunnelsUnrouted: Bool
    /// Whether requests need a client token here.
    package var requiresClientToken: Bool

    /// As the admin API names them.
    private enum CodingKeys: String, CodingKey {
        case host, port, intercepts, tunnelsUnrouted, requiresClientToken
        case isTLS = "tls"
    }

    package init(
        host: String,
        port: Int,
        isTLS: Bool,
        intercepts: Bool,
        tunnelsUnrouted: Bool = false,
        requiresClientToken: Bool
    ) {
        self.host = host
        self.port = port
        self.isTLS = isTLS
        self.intercepts = intercepts
        self.tunnelsUnrouted = tunnelsUnrouted
        self.requiresClientToken = requiresClientToken
    }

    /// What a client of this machine connects to: an address that stands for all is that of loopback.
    package var origin: Origin {
        let local = ["0.0.0.0": "127.0.0.1", "::": "::1"][host] ?? host
        return Origin(scheme: isTLS ? .https : .http, host: local, port: port)
    }

    /// With the port, also where that is the scheme's own: clients take different ports for a proxy without one.
    package var authority: String { Origin.hostAndPort(origin.host, port) }

    /// The URL of the proxy.
    ///
    /// - Parameter user: What stands before the host, encoded.
    package func url(user: String? = nil) -> String {
        "\(origin.scheme.rawValue)://\(user.map { $0 + "@" } ?? "")\(authority)"
    }
}

/// What clients of this machine can use the gateway for as their proxy.
package struct ProxyOffer: Hashable, Sendable, Codable {
    package enum Choice: Hashable, Sendable {
        case endpoint(ProxyEndpoint)
        /// Why there is none, and what to do.
        case none(String)
    }

    package var endpoints: [ProxyEndpoint]
    /// The origins that routes lead to, such as `https://api.example.com`.
    package var origins: [String]

    package init(endpoints: [ProxyEndpoint] = [], origins: [String] = []) {
        self.endpoints = endpoints
        self.origins = origins
    }

    /// Their hosts, each once and sorted.
    package var hosts: [String] {
        let origins = origins.compactMap { text -> Origin? in
            guard let end = text.firstRange(of: "://"),
                let scheme = Origin.Scheme(rawValue: String(text[..<end.lowerBound]))
            else { return nil }
            return Origin(scheme: scheme, authority: String(text[end.upperBound...]))
        }
        return Set(origins.map(\.host)).sorted()
    }

    /// For a program of this machine: it intercepts, is on loopback and speaks plain HTTP, which all clients can.
    package var choice: Choice {
        let local = endpoints.filter(\.origin.isLoopback)
        let usable = local.filter { $0.intercepts && !$0.isTLS }
        // A program asks for more than the hosts of routes.
        if let found = usable.first(where: \.tunnelsUnrouted) ?? usable.first { return .endpoint(found) }
        let reason =
            local.contains(where: \.intercepts)
            ? "the listener with intercept: true on loopback has tls, and most programs cannot use that as their proxy"
            : "no listener on loopback takes CONNECT"
        return .none(reason + Self.advice)
    }

    private static let advice = """
        ; add one to gateway.yaml:

          listeners:
            proxy:
              - address: 127.0.0.1:8082
                intercept: true
                connect: {unrouted: tunnel}
        """

    /// What `exec` says of a listener that refuses hosts without a route.
    package static let refusalNotice =
        "Requests for hosts without a route are refused; listeners.proxy[].connect: {unrouted: tunnel} lets them pass."
}
