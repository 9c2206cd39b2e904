package import GatewayHTTP

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

    /// Host and port. The port is there even if it is the scheme's own: clients take different ports for a proxy without one.
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

    /// A server to which each request gets a credential.
    package struct Service: Hashable, Sendable, Codable {
        /// As in ``ProxyOffer/origins``.
        package var origin: String
        /// The path of a route to all of it, such as `/openai`; nil where none has one.
        package var path: String?

        package init(origin: String, path: String? = nil) {
            self.origin = origin
            self.path = path
        }
    }

    package var endpoints: [ProxyEndpoint]
    /// The origins that routes lead to, such as `https://api.example.com`.
    package var origins: [String]
    /// nil from a gateway that does not know of them yet.
    package var services: [Service]?

    package init(endpoints: [ProxyEndpoint] = [], origins: [String] = [], services: [Service]? = nil) {
        self.endpoints = endpoints
        self.origins = origins
        self.services = services
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
            : "no listener on loopback accepts CONNECT"
        return .none(reason + Self.advice)
    }

    /// For a program of another machine: it intercepts, and has TLS, since others could read the client's token otherwise.
    ///
    /// - Parameter host: The gateway's machine, as that program's machine names it.
    package func choice(at host: String) -> Choice {
        let reachable = endpoints.compactMap { endpoint -> ProxyEndpoint? in
            var endpoint = endpoint
            if ["0.0.0.0", "::"].contains(endpoint.host) { endpoint.host = host }
            return endpoint.intercepts && endpoint.isTLS && !endpoint.origin.isLoopback ? endpoint : nil
        }
        if let found = reachable.first(where: \.tunnelsUnrouted) ?? reachable.first { return .endpoint(found) }
        return .none(
            "no listener with intercept: true and tls can be reached from other machines; see listeners.proxy in gateway.yaml"
        )
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

/// The hosts that a client asks without its proxy, as `NO_PROXY` lists them.
package struct ProxyExceptions: Hashable, Sendable {
    /// Programs of this machine speak to each other directly.
    private static let local = ["localhost", "127.0.0.1", "::1"]

    package let hosts: [String]

    /// - Parameters:
    ///   - hosts: Those that routes lead to; none of them is excepted.
    ///   - earlier: What `NO_PROXY` said before.
    package init(routed hosts: [String], earlier: String?) {
        let named = (earlier ?? "").split { $0 == "," || $0 == " " }.map(String.init)
        var found: [String] = []
        for entry in Self.local + named where !found.contains(entry) {
            if !hosts.contains(where: { Self.covers(entry, $0) }) { found.append(entry) }
        }
        self.hosts = found
    }

    /// For `NO_PROXY`.
    package var text: String { hosts.joined(separator: ",") }

    /// For `http.nonProxyHosts` of Java, which adds all names of loopback to any list that is not empty.
    package var javaText: String {
        guard Self.local.allSatisfy(hosts.contains) else { return "" }
        return hosts.map { $0.hasPrefix(".") ? "*" + $0 : Origin.urlHost($0) }.joined(separator: "|")
    }

    /// Clients differ in what an entry covers; this is the most that any of them reads into it.
    private static func covers(_ entry: String, _ host: String) -> Bool {
        guard entry != "*" else { return true }
        var name = entry.lowercased()
        if let colon = name.lastIndex(of: ":"), name.firstIndex(of: ":") == colon { name = String(name[..<colon]) }
        if name.hasPrefix("*") { name.removeFirst() }
        if name.hasPrefix(".") { name.removeFirst() }
        if name.hasPrefix("["), name.hasSuffix("]") { name = String(name.dropFirst().dropLast()) }
        return host == name || host.hasSuffix("." + name)
    }
}

/// A script that tells a browser which requests go through the gateway: those for origins of routes.
///
/// Holds no secret: what may see the admin listener may see it.
package struct ProxyAutoConfig: Hashable, Sendable {
    package static let contentType = "application/x-ns-proxy-autoconfig"

    package let text: String

    package init(_ offer: ProxyOffer) {
        let origins = offer.origins.compactMap { origin -> String? in
            guard let place = Self.endpoint(for: origin, of: offer.endpoints) else { return nil }
            let target = "\(place.isTLS ? "HTTPS" : "PROXY") \(place.authority)"
            return "    \(Self.quoted(Self.withPort(origin))): \(Self.quoted(target))"
        }
        text = """
            // Requests for the upstreams of AuthGateway's routes go through it, all others do not.
            function FindProxyForURL(url, host) {
              var gateways = {
            \(origins.joined(separator: ",\n"))
              };
              var parts = /^(https?):\\/\\/(?:[^\\/?#@]*@)?(\\[[^\\]]*\\]|[^:\\/?#]*)(?::(\\d+))?/i.exec(url);
              if (!parts) return "DIRECT";
              var scheme = parts[1].toLowerCase();
              var port = parts[3] || (scheme === "https" ? "443" : "80");
              var origin = scheme + "://" + parts[2].toLowerCase() + ":" + port;
              return Object.prototype.hasOwnProperty.call(gateways, origin) ? gateways[origin] : "DIRECT";
            }

            """
    }

    /// Browsers ask for `https` with CONNECT, and for `http` with an absolute target, which each listener takes.
    private static func endpoint(for origin: String, of endpoints: [ProxyEndpoint]) -> ProxyEndpoint? {
        let able = origin.hasPrefix("https:") ? endpoints.filter(\.intercepts) : endpoints
        let ranked = able.filter(\.origin.isLoopback) + able.filter { !$0.origin.isLoopback }
        return ranked.first { !$0.isTLS && $0.intercepts } ?? ranked.first { !$0.isTLS } ?? ranked.first
    }

    private static func withPort(_ origin: String) -> String {
        let name = origin.split(separator: "/").last ?? ""
        let hasPort = name.last != "]" && name.contains(":")
        return hasPort ? origin : "\(origin):\(origin.hasPrefix("https:") ? 443 : 80)"
    }

    /// A string of JavaScript in which nothing is markup and nothing ends a line.
    private static func quoted(_ text: String) -> String {
        JSONString.quoted(text) { $0.isASCII && $0.value >= 0x20 && $0.value != 0x7F && $0 != "<" }
    }
}
