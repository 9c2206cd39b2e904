import GatewayHTTP
import GatewayTokens

/// Knows where on the gateway a client finds what an upstream's link names.
///
/// A link may lead to other routes with the same credential, never to one with another: a client that follows links must not
/// take rights along that the link's author chose.
package final class LinkTable: Sendable {
    struct Place: Sendable {
        let origin: Origin
        /// The path before the forwarded one: empty, or without a slash at the end.
        let base: [UInt8]
        /// What a path that finds the route begins with; empty is the root.
        let prefix: [UInt8]
    }

    /// Routes that links of one another may lead to: they have one credential.
    private struct Group: Sendable {
        /// The longest base path first.
        var byOrigin: [Origin: [Int]] = [:]
        var longestOrigin = 0
        var longestPath = 0
    }

    private struct Right: Hashable {
        let credential: Int
        let asUser: ActingUser?
    }

    let places: [Place]
    private let groups: [Group]
    /// The group of each route.
    private let groupIndices: [Int]
    private let table: RouteTable

    package init(_ routes: [RoutePlan], table: RouteTable) {
        self.table = table
        let places = routes.map { route in
            Place(
                origin: route.upstream,
                base: Array(route.upstreamPath.utf8),
                prefix: route.matchPath == "/" ? [] : Array(route.matchPath.utf8)
            )
        }
        (groups, groupIndices) = Self.groups(routes, places)
        self.places = places
    }

    private static func groups(_ routes: [RoutePlan], _ places: [Place]) -> (groups: [Group], indices: [Int]) {
        var (members, indices): ([[Int]], [Int]) = ([], [])
        var known: [Right: Int] = [:]
        for (index, route) in routes.enumerated() {
            // Without a credential the client's own goes upstream: it is for this upstream alone.
            let right = route.credential.map { Right(credential: $0, asUser: route.asUser) }
            let group = right.flatMap { known[$0] } ?? members.count
            if group == members.count { members.append([]) }
            if let right { known[right] = group }
            members[group].append(index)
            indices.append(group)
        }
        return (members.map { Self.group($0, places) }, indices)
    }

    private static func group(_ members: [Int], _ places: [Place]) -> Group {
        var group = Group()
        let order = members.sorted { (places[$1].base.count, $0) < (places[$0].base.count, $1) }
        for member in order {
            let place = places[member]
            group.byOrigin[place.origin, default: []].append(member)
            group.longestOrigin = max(group.longestOrigin, place.origin.description.utf8.count)
            group.longestPath = max(group.longestPath, place.prefix.count + place.base.count)
        }
        return group
    }

    /// Whether routes have this host name.
    func knowsHost(_ host: [UInt8]) -> Bool { table.knowsHost(host.span, host.indices) }

    /// The routes that a link to `origin` in an answer of `route` may lead to: the longest base path first. `route` itself comes
    /// before others with a base path of that length.
    func peers(of route: Int, at origin: Origin) -> [Int] {
        let peers = groups[groupIndices[route]].byOrigin[origin] ?? []
        guard places[route].origin == origin, peers.count > 1 else { return peers }
        let length = places[route].base.count
        let longer = peers.prefix { places[$0].base.count > length }
        return longer + [route] + peers.dropFirst(longer.count).filter { $0 != route }
    }

    func arePeers(_ route: Int, _ other: Int) -> Bool { groupIndices[route] == groupIndices[other] }

    /// The longest origin, and the longest prefix and base together, of the routes that links of `route` may lead to. In bytes.
    func longest(of route: Int) -> (origin: Int, path: Int) {
        let group = groups[groupIndices[route]]
        return (group.longestOrigin, group.longestPath)
    }

    /// The route that a client's request for that path finds.
    ///
    /// - Parameter host: The name that it comes under, without a port; may be empty.
    func find(_ host: [UInt8], _ path: [UInt8]) -> RouteTable.Match? {
        let bytes = host + path
        return table.find(bytes.span, host: 0..<host.count, path: host.count..<bytes.count)
    }
}
