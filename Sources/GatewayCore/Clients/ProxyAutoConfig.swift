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
