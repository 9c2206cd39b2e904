import GatewayHTTP

/// Finds the route of a request from the bytes of its head, without building a string.
///
/// Most specific wins: an exact host before a wildcard, a host before none, a longer path before a shorter one.
package struct RouteTable: Sendable {
    private struct HostEntry: Sendable {
        /// Lower case; of a wildcard what follows the star: `.example.com`.
        let name: [UInt8]
        let paths: PathIndex
        /// Several routes name it, so the path chose among them and is stripped.
        let isShared: Bool

        func find(_ bytes: borrowing Span<UInt8>, _ path: Range<Int>) -> Match? {
            paths.find(bytes, path).map { isShared ? .path($0) : .host($0) }
        }
    }

    private struct UpstreamEntry: Sendable {
        let host: [UInt8]
        let port: Int
        let scheme: Origin.Scheme
        let prefix: [UInt8]
        var shared: SharedUpstream

        /// How far it is from what a target of that scheme without a port names.
        func distance(to scheme: Origin.Scheme) -> Int {
            if port == scheme.defaultPort { return 0 }
            return port == self.scheme.defaultPort ? 1 : 2
        }
    }

    private var anyHost = PathIndex()
    private var exactHosts: [UInt64: [HostEntry]] = [:]
    /// A bit for each length that the name of an exact host has, the last one for all longer ones: most requests of a gateway whose
    /// routes are found by their paths name a host of none of these, and need no hash.
    private var exactLengths: UInt64 = 0
    /// Longest first.
    private var wildcardHosts: [HostEntry] = []
    /// Some route names a host.
    private var hasHosts = false
    private var upstreams: [UInt64: [UpstreamEntry]] = [:]

    package init(_ routes: [RoutePlan]) {
        anyHost = PathIndex(
            routes.enumerated().filter { !$1.matchesAll }
                .map { ($0, $1.matchPath == "/" ? [] : Array($1.matchPath.utf8)) }
        )
        for (index, route) in routes.enumerated() where route.matchesUpstreamHost { addUpstream(index, route) }
        addHosts(of: routes)
        wildcardHosts.sort { $0.name.count > $1.name.count }
        hasHosts = !exactHosts.isEmpty || !wildcardHosts.isEmpty
    }

    /// A host that one route names leads to it, whatever the path. Where several routes name a host, or a route asks for host and
    /// path, their paths choose.
    private mutating func addHosts(of routes: [RoutePlan]) {
        var owners: [String: [Int]] = [:]
        for (index, route) in routes.enumerated() {
            for host in Set(route.matchHosts.map { $0.lowercased() }) { owners[host, default: []].append(index) }
        }
        for (host, indices) in owners {
            let isShared = indices.count > 1 || indices.contains { routes[$0].matchesAll }
            let paths = PathIndex(
                indices.map { index in
                    let path = !isShared || routes[index].matchPath == "/" ? "" : routes[index].matchPath
                    return (index, Array(path.utf8))
                }
            )
            add(paths, host: host, isShared: isShared)
        }
    }

    private mutating func add(_ paths: PathIndex, host: String, isShared: Bool) {
        if host.hasPrefix("*.") {
            wildcardHosts.append(
                HostEntry(name: Array(host.dropFirst().utf8), paths: paths, isShared: isShared)
            )
        } else {
            let name = Array(host.utf8)
            let key = Self.hash(name.span, 0..<name.count)
            exactHosts[key, default: []].append(HostEntry(name: name, paths: paths, isShared: isShared))
            exactLengths |= Self.bit(ofLength: name.count)
        }
    }

    private mutating func addUpstream(_ route: Int, _ plan: RoutePlan) {
        let host = Array(plan.upstream.host.utf8)
        let prefix = Array(plan.upstreamMatchPath.utf8)
        let key = Self.hash(host.span, 0..<host.count)
        let same = upstreams[key]?.firstIndex {
            $0.host == host && $0.port == plan.upstream.port && $0.scheme == plan.upstream.scheme && $0.prefix == prefix
        }
        if let same {
            upstreams[key]?[same].shared.add(route, plan)
        } else {
            var shared = SharedUpstream()
            shared.add(route, plan)
            upstreams[key, default: []]
                .append(
                    UpstreamEntry(
                        host: host,
                        port: plan.upstream.port,
                        scheme: plan.upstream.scheme,
                        prefix: prefix,
                        shared: shared
                    )
                )
        }
    }

    /// What a request for a server's own host means.
    enum UpstreamMatch: Sendable {
        case none
        case one(Int)
        /// The client tells them apart, or nothing does.
        case shared(SharedUpstream)

        var route: Int? { if case .one(let route) = self { route } else { nil } }
    }

    /// How a request found its route; decides which part of its path is stripped.
    package enum Match: Hashable, Sendable {
        /// The route's path prefix is stripped.
        case path(Int)
        case host(Int)
        /// Absolute form: the path is the upstream's own, base path included.
        case upstream(Int)
        /// The server has no route (`connect.unrouted: tunnel`). The path is forwarded as it came.
        case unrouted

        /// The index of the route. Without a route, it is one that no list of routes has.
        package var route: Int {
            switch self {
            case .path(let route), .host(let route), .upstream(let route): route
            case .unrouted: .max
            }
        }

        /// What of the request named the route.
        var way: String {
            switch self {
            case .path: "path"
            case .host: "host"
            case .upstream: "upstream"
            case .unrouted: "none"
            }
        }
    }

    /// - Parameters:
    ///   - host: The name without its port.
    ///   - path: Begins with `/`.
    package func find(_ bytes: borrowing Span<UInt8>, host: Range<Int>, path: Range<Int>) -> Match? {
        if let entry = hostEntry(bytes, host), let match = entry.find(bytes, path) { return match }
        return anyHost.find(bytes, path).map { .path($0) }
    }

    /// The routes whose upstream an absolute-form target names.
    ///
    /// A client asks for `http` where the gateway is to speak TLS; what it asks for by `https` is never sent in the clear.
    ///
    /// - Parameters:
    ///   - scheme: The scheme of the target.
    ///   - port: nil when the target names none. It then is its scheme's, or an `https` upstream's; where there is neither, any
    ///     port that is the only one.
    func findUpstream(
        _ bytes: borrowing Span<UInt8>,
        scheme: Origin.Scheme,
        host: Range<Int>,
        port: Int?,
        path: Range<Int>
    ) -> UpstreamMatch {
        let candidates = entries(bytes, host)
        guard !candidates.isEmpty else { return .none }
        var best: (index: Int?, rank: (Int, Int))?
        for (index, candidate) in candidates.enumerated() {
            guard port == nil || port == candidate.port, scheme == .http || candidate.scheme == .https else { continue }
            guard
                candidate.prefix.isEmpty
                    || Self.hasPrefix(bytes, path, candidate.prefix, candidate.prefix.indices)
            else { continue }
            let rank = (port == nil ? candidate.distance(to: scheme) : 0, -candidate.prefix.count)
            if let found = best, found.rank <= rank {
                // Two that are equally near: nothing chooses between them.
                if found.rank == rank { best = (nil, rank) }
            } else {
                best = (index, rank)
            }
        }
        guard let index = best?.index else { return .none }
        return candidates[index].shared.single.map { .one($0) } ?? .shared(candidates[index].shared)
    }

    /// The ports at which routes lead to that host.
    func upstreamPorts(_ bytes: borrowing Span<UInt8>, scheme: Origin.Scheme, host: Range<Int>) -> Set<Int> {
        Set(entries(bytes, host).filter { $0.scheme == scheme }.map(\.port))
    }

    /// Whether routes lead to that server, whatever the path.
    func hasUpstream(
        _ bytes: borrowing Span<UInt8>,
        scheme: Origin.Scheme,
        host: Range<Int>,
        port: Int
    ) -> Bool {
        entries(bytes, host).contains { $0.scheme == scheme && $0.port == port }
    }

    /// Whether routes lead to what a plain request for that host may mean, whatever the path: one without a port, or with that of
    /// `http`, may mean any of the host's.
    func leads(to bytes: borrowing Span<UInt8>, _ host: Range<Int>, port: Int?) -> Bool {
        let isDefault = port == nil || port == Origin.Scheme.http.defaultPort
        return entries(bytes, host).contains { isDefault || $0.port == port }
    }

    /// What leads to that host.
    private func entries(_ bytes: borrowing Span<UInt8>, _ host: Range<Int>) -> [UpstreamEntry] {
        guard let found = upstreams[Self.hash(bytes, host)] else {
            guard let name = IPAddress.otherSpelling(bytes, host) else { return [] }
            return upstreams[Self.hash(name.span, name.indices)]?.filter { $0.host == name } ?? []
        }
        var own: [UpstreamEntry]?
        for (index, entry) in found.enumerated() {
            let isOwn = bytes.equalsLowercased(host, entry.host)
            // Hardly ever do two hosts have the same hash.
            if !isOwn, own == nil { own = Array(found[..<index]) }
            if isOwn { own?.append(entry) }
        }
        return own ?? found
    }

    /// Whether `host` (without port) is a name that some route answers to.
    package func knowsHost(_ bytes: borrowing Span<UInt8>, _ host: Range<Int>) -> Bool {
        hostEntry(bytes, host) != nil
    }

    private func hostEntry(_ bytes: borrowing Span<UInt8>, _ host: Range<Int>) -> HostEntry? {
        guard hasHosts, !host.isEmpty else { return nil }
        if exactLengths & Self.bit(ofLength: host.count) != 0, let candidates = exactHosts[Self.hash(bytes, host)] {
            for candidate in candidates where bytes.equalsLowercased(host, candidate.name) { return candidate }
        }
        for wildcard in wildcardHosts where host.count > wildcard.name.count {
            let tail = host.upperBound - wildcard.name.count..<host.upperBound
            if bytes.equalsLowercased(tail, wildcard.name) { return wildcard }
        }
        return nil
    }

    private static func bit(ofLength length: Int) -> UInt64 { 1 &<< UInt64(truncatingIfNeeded: min(length, 63)) }
}

// MARK: - Paths

/// The index of paths.
extension RouteTable {
    /// Routes by their first path segment, longest prefix first; those for `/` apart.
    ///
    /// What a thousand routes have lies side by side: a request looks at places that others have kept in the cache.
    fileprivate struct PathIndex: Sendable {
        private struct Entry: Sendable {
            /// The hash of the first segment.
            let hash: UInt64
            let route: Int32
            /// The range of the prefix within ``prefixes``.
            let prefix: Range<Int32>
        }

        /// Where in ``entries`` those of a segment begin, at the place that its hash names or, where that is taken, soon
        /// after; -1 is free. A power of two of places, at most half of them taken.
        private var places: [Int32] = []
        /// The entries, those of one segment side by side, the longest prefix first.
        private var entries: [Entry] = []
        private var prefixes: [UInt8] = []
        private var root: Int?

        init() {}

        /// - Parameter routes: With their prefixes, empty for the root. Of two with the same prefix the first counts.
        init(_ routes: [(route: Int, prefix: [UInt8])]) {
            root = routes.first { $0.prefix.isEmpty }?.route
            let named = routes.filter { !$0.prefix.isEmpty }
            guard !named.isEmpty else { return }
            places = [Int32](repeating: -1, count: 2 << (Int.bitWidth - named.count.leadingZeroBitCount))
            let groups = Dictionary(grouping: named) { _, prefix in
                RouteTable.hash(prefix.span, RouteTable.firstSegment(prefix.span, 0..<prefix.count))
            }
            for (hash, group) in groups {
                places[place(of: hash)] = Int32(entries.count)
                let ordered = group.sorted { ($1.prefix.count, $0.route) < ($0.prefix.count, $1.route) }
                for (route, prefix) in ordered {
                    let start = Int32(prefixes.count)
                    prefixes += prefix
                    entries.append(Entry(hash: hash, route: Int32(route), prefix: start..<Int32(prefixes.count)))
                }
            }
        }

        /// Where the entries of a segment are found, or would be.
        private func place(of hash: UInt64) -> Int {
            let last = places.count &- 1
            var place = Int(truncatingIfNeeded: hash) & last
            while places[place] >= 0, entries[Int(places[place])].hash != hash { place = (place &+ 1) & last }
            return place
        }

        func find(_ bytes: borrowing Span<UInt8>, _ path: Range<Int>) -> Int? {
            guard !places.isEmpty else { return root }
            let hash = RouteTable.hash(bytes, RouteTable.firstSegment(bytes, path))
            let first = places[place(of: hash)]
            guard first >= 0 else { return root }
            for index in Int(first)..<entries.count {
                let entry = entries[index]
                guard entry.hash == hash else { break }
                let prefix = Int(entry.prefix.lowerBound)..<Int(entry.prefix.upperBound)
                if RouteTable.hasPrefix(bytes, path, prefixes, prefix) { return Int(entry.route) }
            }
            return root
        }
    }

    /// On segment borders only: `/box` is a prefix of `/box` and `/box/a`, not of `/boxer`.
    ///
    /// - Parameter prefix: The place of the prefix within `prefixes`.
    fileprivate static func hasPrefix(
        _ bytes: borrowing Span<UInt8>,
        _ path: Range<Int>,
        _ prefixes: [UInt8],
        _ prefix: Range<Int>
    ) -> Bool {
        guard path.count >= prefix.count else { return false }
        for offset in 0..<prefix.count
        where bytes[path.lowerBound &+ offset] != prefixes[prefix.lowerBound &+ offset] { return false }
        return path.count == prefix.count || bytes[path.lowerBound &+ prefix.count] == 0x2F
    }

    fileprivate static func firstSegment(_ bytes: borrowing Span<UInt8>, _ path: Range<Int>) -> Range<Int> {
        var end = path.lowerBound &+ 1
        while end < path.upperBound, bytes[end] != 0x2F { end &+= 1 }
        return min(path.lowerBound &+ 1, path.upperBound)..<max(end, min(path.lowerBound &+ 1, path.upperBound))
    }

    /// FNV-1a over the bytes in lower case; equal keys are compared byte by byte afterwards.
    fileprivate static func hash(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for index in range {
            hash = (hash ^ UInt64(bytes[index].asciiLowercased)) &* 0x0000_0100_0000_01B3
        }
        return hash
    }
}
