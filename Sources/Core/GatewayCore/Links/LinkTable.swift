/// Knows where on the gateway a client finds what an upstream's link names.
///
/// A link may lead to other routes with the same credential, never to one with another: a client that follows links must not
/// take rights along that the link's author chose.
package final class LinkTable: Sendable {
    struct Place: Sendable {
        let origin: Origin
        /// Before the forwarded path: empty, or without a slash at the end.
        let base: [UInt8]
        /// What a path that finds the route begins with; empty is the root.
        let prefix: [UInt8]
    }

    let places: [Place]
    private let peers: [[Int]]
    private let table: RouteTable

    package init(_ routes: [RoutePlan], table: RouteTable) {
        self.table = table
        places = routes.map { route in
            Place(
                origin: route.upstream,
                base: Array(route.upstreamPath.utf8),
                prefix: route.matchPath == "/" ? [] : Array(route.matchPath.utf8)
            )
        }
        peers = Self.peers(routes)
    }

    /// For each route those that its links may lead to, itself among them: the longest base path first, then itself.
    private static func peers(_ routes: [RoutePlan]) -> [[Int]] {
        struct Right: Hashable {
            let credential: Int
            let asUser: String?
        }
        func right(_ route: RoutePlan) -> Right? {
            route.credential.map { Right(credential: $0, asUser: route.asUser) }
        }
        let groups = Dictionary(grouping: routes.indices) { right(routes[$0]) }
        return routes.indices.map { index in
            // Without a credential the client's own goes upstream: it is for this upstream alone.
            guard let own = right(routes[index]), let group = groups[own], group.count > 1 else { return [index] }
            return group.sorted { first, second in
                let lengths = (routes[first].upstreamPath.utf8.count, routes[second].upstreamPath.utf8.count)
                return lengths.0 == lengths.1 ? first == index && second != index : lengths.0 > lengths.1
            }
        }
    }

    /// Whether routes have this host name.
    func knowsHost(_ host: [UInt8]) -> Bool { table.knowsHost(host.span, host.indices) }

    func peers(of route: Int) -> [Int] { peers[route] }

    /// The route that a client's request for that path finds.
    ///
    /// - Parameter host: The name that it comes under, without a port; may be empty.
    func find(_ host: [UInt8], _ path: [UInt8]) -> RouteTable.Match? {
        let bytes = host + path
        return table.find(bytes.span, host: 0..<host.count, path: host.count..<bytes.count)
    }
}

extension RoutePlan {
    /// Whether links are rewritten in an exchange whose request found the route in that way.
    ///
    /// To a client that names the upstream itself its links are right.
    package func rewritesLinks(_ match: RouteTable.Match) -> Bool {
        switch match {
        case .path: rewritesLinks ?? true
        case .host: rewritesLinks ?? false
        case .upstream: false
        }
    }
}
