/// What one route asks of a request before it may pass.
///
/// A class, so that looking at it copies one reference and not all that a plan holds.
final class RouteGate: Sendable {
    let name: String
    let clients: [String]?
    let allow: [RoutePlan.Allow]
    let strictness: CanonicalPath.Strictness
    /// Those of its credential that are reached through it.
    let endpoints: [AuthorityEndpoint]
    private let prefix: PathPrefix
    /// Nothing is asked but that the path can be read in one way only.
    var isPlain: Bool { clients == nil && allow.isEmpty && endpoints.isEmpty }

    init(_ route: RoutePlan) {
        name = route.name
        clients = route.clients
        allow = route.allow
        endpoints = route.endpoints
        strictness = route.allow.isEmpty ? (route.credential == nil ? .open : .credentialed) : .ruled
        prefix = PathPrefix(route)
    }

    func forbidByRule(
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> GatewayProblem? {
        let path = head.forwardedPath(match, without: prefix)
        // `*` is no path, and no rule is about it.
        let asksForServer = path.isEmpty && head.asksForServer(bytes)
        if !asksForServer, isAllowed(path, head, bytes) { return nil }
        return GatewayProblem(.routeForbidden, "The route \(name) does not allow this method and path.")
    }

    /// What the gateway says to its authority itself is nobody else's to say, unless a rule names the path.
    func forbidEndpoint(
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> GatewayProblem? {
        let path = head.forwardedPath(match, without: prefix)
        for endpoint in endpoints where endpoint.isMeant(by: path, in: bytes) {
            return isNamed(path, head, bytes) ? nil : forbidden(endpoint)
        }
        return nil
    }

    /// A wildcard that covers the endpoint does not name it.
    private func isNamed(_ path: Range<Int>, _ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        isAllowed(path, head, bytes, onlyExactly: true)
    }

    /// - Parameter path: As it is forwarded; empty is the root.
    private func isAllowed(
        _ path: Range<Int>,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        onlyExactly: Bool = false
    ) -> Bool {
        let method = head.methodName(bytes)
        for rule in allow where rule.methods.isEmpty || rule.methods.contains(method) {
            if onlyExactly, !rule.path.isExact { continue }
            if path.isEmpty ? rule.path.matchesRoot : rule.path.matches(bytes, path) { return true }
        }
        return false
    }

    private func forbidden(_ endpoint: AuthorityEndpoint) -> GatewayProblem {
        GatewayProblem(
            .routeForbidden,
            "\(endpoint.path) belongs to the authority of the credential of the route \(name), and the gateway alone asks there."
                + " A rule of the route's allow that names this path without a wildcard lets clients ask, too."
        )
    }
}

/// How many bytes of a request's path stand for the route itself, by how the request found it.
package struct PathPrefix: Sendable {
    let matched: Int32
    let upstream: Int32

    package init(_ route: RoutePlan) {
        matched = route.matchPath == "/" ? 0 : Int32(clamping: route.matchPath.utf8.count)
        upstream = Int32(clamping: route.upstreamPath.utf8.count)
    }
}

extension RequestHead {
    /// The part of the path that goes behind the upstream's base path; empty means the root.
    package borrowing func forwardedPath(_ match: RouteTable.Match, without prefix: PathPrefix) -> Range<Int> {
        switch match {
        case .host: path
        case .path: path.lowerBound + Int(prefix.matched)..<path.upperBound
        // An absolute target names the upstream's own path, base path included.
        case .upstream: path.lowerBound + Int(prefix.upstream)..<path.upperBound
        }
    }
}
