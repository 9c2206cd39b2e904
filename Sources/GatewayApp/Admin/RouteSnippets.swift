package import GatewayEvents
import GatewayHTTP
import GatewayProxy
package import GatewayTokens

/// What a person copies to use a route: for a terminal, for an SDK, and for programs that know a proxy.
struct RouteSnippets: Hashable, Sendable {
    struct Snippet: Hashable, Sendable {
        let title: String
        let text: String
    }

    let all: [Snippet]

    /// - Parameters:
    ///   - listeners: Where clients find the gateway: URLs, and `unix:PATH`. The first one is used.
    ///   - asksForClients: Whether requests need a client token.
    init(_ route: RouteStatus, listeners: [String], asksForClients: Bool) {
        let listener = listeners.first { $0.hasPrefix("http") } ?? listeners.first ?? ""
        let token = asksForClients ? ShellWord.bearer(from: "CLIENT_TOKEN_FILE") : ""
        let field = asksForClients ? " -H @-" : ""
        let path = route.path == "/" ? "" : route.path
        if listener.hasPrefix("unix:") {
            let socket = ShellWord.quoted(String(listener.dropFirst(5)))
            let url = ShellWord.quoted("http://\(route.hosts.first ?? "localhost")\(path)/")
            all = [Snippet(title: "curl", text: "\(token)curl --unix-socket \(socket)\(field) \(url)")]
            return
        }
        let base = Self.base(of: route, at: listener) + path
        var snippets = [
            Snippet(
                title: "curl",
                text: "\(token)curl\(Self.hostField(of: route))\(field) \(ShellWord.quoted("\(base)/"))"
            ),
            Snippet(title: "SDK base URL", text: base),
        ]
        if listener.hasPrefix("http://"), let end = route.upstream.firstRange(of: "://")?.upperBound {
            let target = ShellWord.quoted("http://\(route.upstream[end...].drop { $0 == "/" })/")
            snippets.append(
                Snippet(title: "Proxy variables", text: "\(token)http_proxy=\(listener) curl\(field) \(target)")
            )
        }
        all = snippets
    }

    /// Names under `localhost` lead to this machine (RFC 6761), so one of the route's own is used.
    private static func base(of route: RouteStatus, at listener: String) -> String {
        guard route.path == "/", let host = localName(of: route), let port = listener.lastIndex(of: ":") else {
            return listener
        }
        let scheme = listener.prefix { $0 != ":" }
        return "\(scheme)://\(host)\(listener[port...])"
    }

    private static func localName(of route: RouteStatus) -> String? {
        route.hosts.first { $0.hasSuffix(".localhost") && !$0.contains("*") }
    }

    private static func hostField(of route: RouteStatus) -> String {
        guard route.path == "/", localName(of: route) == nil, let host = route.hosts.first else { return "" }
        return " -H \(ShellWord.quoted("Host: \(host)"))"
    }
}

/// How a route does, in one of four words.
package enum RouteCondition: String, Sendable {
    /// Nothing is known of the last 5 minutes.
    case idle
    case good
    /// Some requests fail.
    case degraded
    case failing
}

extension RouteStatus {
    /// From what its credential needs, from its upstream's health, and from what it answered in the last 5 minutes.
    ///
    /// - Parameter token: The state of its credential, if that is known.
    package func condition(_ traffic: TrafficStatus?, token: TokenStatus? = nil) -> RouteCondition {
        if needs != nil { return .failing }
        if let token, token.failing != nil, !token.isServed { return .failing }
        let rates = [health?.failureRate, traffic?.errorShare].compactMap(\.self)
        let rejections = [health?.rejectionRate, traffic?.rejectionShare].compactMap(\.self)
        guard let rate = rates.max() else {
            // RFC 3339 in one form: the later time is the greater string.
            let hasFailed = health?.lastFailureAt.map { $0 > health?.lastSuccessAt ?? "" } ?? false
            if hasFailed { return .failing }
            return health?.unanswered == nil ? .idle : .degraded
        }
        if rate >= 0.5 { return .failing }
        if health?.unanswered != nil { return .degraded }
        // Below that, clients may only be asking for what the credential may not read.
        if let most = rejections.max(), most >= 0.5 { return .degraded }
        return rate >= 0.01 ? .degraded : .good
    }
}
