import GatewayHTTP

/// Why one route does not serve a request.
///
/// Each route is asked whether it would serve the request if it were the only one, by the same ``RouteTable``.
package struct RouteLoss: Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
        /// Neither the host nor the path is its own.
        case otherHostAndPath
        /// Its path fits. The host belongs to the other route, and a host counts before a path.
        case hostDecides
        /// A name of its own fits. The other route has the name `host`, which is more specific.
        case specificHost(String)
        /// It has the host together with other routes, so their paths choose, and its path does not fit.
        case sharedHost
        /// Its path fits. That of the other route is longer.
        case longerPath
        /// The target is that of another upstream.
        case otherUpstream
        /// The target is that of its upstream. Other routes have the same upstream, and one of them or none is meant.
        case sharedUpstream
        /// The target is that of its upstream. The other route's upstream is nearer: by its port or by a longer base path.
        case nearerUpstream
    }

    /// Into the routes of the configuration.
    package let route: Int
    package let name: String
    package let reason: Reason

    /// It would serve the request if another route did not.
    var isNear: Bool {
        switch reason {
        case .otherHostAndPath, .otherUpstream: false
        case .hostDecides, .specificHost, .sharedHost, .longerPath, .sharedUpstream, .nearerUpstream: true
        }
    }

    /// - Parameter match: What the whole table has found.
    static func all(
        of routes: [RoutePlan],
        but match: RouteTable.Match?,
        asked question: RouteQuestion,
        _ bytes: borrowing Span<UInt8>
    ) -> [RouteLoss] {
        let winner = match.flatMap { $0.route < routes.count ? routes[$0.route] : nil }
        var losses: [RouteLoss] = []
        for (index, route) in routes.enumerated() where index != match?.route {
            let reason: Reason
            if let scheme = question.scheme, question.isForUpstream(match) {
                reason = question.upstreamReason(of: route, scheme, against: winner, bytes)
            } else {
                reason = question.reason(of: route, against: winner, bytes)
            }
            losses.append(RouteLoss(route: index, name: route.name, reason: reason))
        }
        return losses
    }
}

/// What a request says of the route that it wants.
struct RouteQuestion {
    let host: Range<Int>
    let port: Int?
    let path: Range<Int>
    /// nil unless the target is absolute.
    let scheme: Origin.Scheme?

    /// An absolute target that found nothing by its host or path was to name an upstream.
    func isForUpstream(_ match: RouteTable.Match?) -> Bool {
        switch match {
        case .upstream, .unrouted, nil: true
        case .path, .host: false
        }
    }

    // MARK: Upstream

    func upstreamReason(
        of route: RoutePlan,
        _ scheme: Origin.Scheme,
        against winner: RoutePlan?,
        _ bytes: borrowing Span<UInt8>
    ) -> RouteLoss.Reason {
        var alone = route
        // Loading has set it to false where several routes have one upstream.
        alone.matchesUpstreamHost = true
        let found = RouteTable([alone]).findUpstream(bytes, scheme: scheme, host: host, port: port, path: path)
        guard found.route != nil else { return .otherUpstream }
        guard let winner, winner.upstreamPlace != route.upstreamPlace else { return .sharedUpstream }
        return .nearerUpstream
    }

    // MARK: Host and path

    func reason(
        of route: RoutePlan,
        against winner: RoutePlan?,
        _ bytes: borrowing Span<UInt8>
    ) -> RouteLoss.Reason {
        switch RouteTable([route]).find(bytes, host: host, path: path) {
        case nil, .upstream, .unrouted: return .otherHostAndPath
        case .path:
            guard let winner, name(of: winner, bytes) != nil else { return .longerPath }
            return .hostDecides
        case .host:
            if let winner, let better = name(of: winner, bytes), better != name(of: route, bytes) {
                return .specificHost(better)
            }
            return winner != nil && pathFits(route, bytes) ? .longerPath : .sharedHost
        }
    }

    /// The most specific of the names of a route that the request's host is.
    private func name(of route: RoutePlan, _ bytes: borrowing Span<UInt8>) -> String? {
        var best: String?
        for name in route.matchHosts {
            var alone = route
            alone.matchHosts = [name]
            guard RouteTable([alone]).knowsHost(bytes, host) else { continue }
            guard let known = best else {
                best = name
                continue
            }
            let isExact = !name.hasPrefix("*.")
            if isExact || (known.hasPrefix("*.") && name.utf8.count > known.utf8.count) { best = name }
        }
        return best
    }

    private func pathFits(_ route: RoutePlan, _ bytes: borrowing Span<UInt8>) -> Bool {
        var alone = route
        alone.matchHosts = []
        return RouteTable([alone]).find(bytes, host: host, path: path) != nil
    }
}
