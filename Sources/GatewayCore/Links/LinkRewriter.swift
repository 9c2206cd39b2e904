import GatewayHTTP

/// Rewrites the links of one exchange, between the upstream's URL and the gateway's.
///
/// A link that the gateway cannot serve with the same credential leads to where the upstream said. Malformed ones stay as they are.
package final class LinkRewriter: Sendable {
    private let table: LinkTable
    private let route: Int
    /// The whole path was forwarded.
    private let isByHost: Bool
    private let gateway: GatewayURL
    /// The name that the request came under, without a port.
    private let host: [UInt8]
    /// What of the request's path followed the route's own.
    private let forwarded: [UInt8]
    /// Of the path: what a link to this route begins with.
    let prefix: [UInt8]

    /// - Parameter publicURL: Where clients see the listener, where that is not what `Host` says.
    package init(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match,
        of table: LinkTable,
        publicURL: GatewayURL?,
        isTLS: Bool
    ) {
        self.table = table
        route = match.route
        isByHost = if case .host = match { true } else { false }
        let authority = head.form == .absolute ? head.targetAuthority : head.host
        let name = Authority(bytes, authority)
        host = name.map { bytes.array($0.host) } ?? []
        let scheme = publicURL?.origin?.scheme ?? (isTLS ? .https : .http)
        let named = GatewayURL(origin: Origin(scheme: scheme, authority: bytes.string(authority)))
        // Another name would not find the routes of a host.
        gateway = table.knowsHost(host) ? named : publicURL ?? named
        let own = isByHost ? [] : table.places[match.route].prefix
        forwarded = bytes.array(min(head.path.lowerBound + own.count, head.path.upperBound)..<head.path.upperBound)
        prefix = gateway.path + own
    }

    /// What the bytes of a rewritten reference are more than before, at the most.
    var maximumGrowth: Int {
        let longest = table.longest(of: route)
        return gateway.path.count + (gateway.origin?.description.utf8.count ?? 0) + longest.origin + longest.path
            + forwarded.count + 2
    }

    var own: LinkTable.Place { table.places[route] }
    /// The request's path is the route's own: a client takes what is relative to it for something of the gateway's.
    var isAtPrefix: Bool { forwarded.isEmpty && !prefix.isEmpty }

    // MARK: To the client

    /// - Returns: nil where the reference stays as it is.
    func toClient(_ text: [UInt8]) -> [UInt8]? {
        guard let reference = URIReference(text),
            let target = reference.resolved(against: own.origin, own.base + forwarded)
        else { return nil }
        switch reference.form {
        case .absolute:
            guard !isOnGateway(target.origin, target.path) else { return nil }
            return gatewayPath(target.origin, target.path).map { gatewayOrigin + $0 + reference.tail }
        case .network(let authority):
            if let scheme = gateway.origin?.scheme, let origin = URIReference.origin(scheme, authority),
                isOnGateway(origin, reference.path)
            {
                return nil
            }
            guard let path = gatewayPath(target.origin, target.path) else {
                return Array("\(own.origin.scheme.rawValue):".utf8) + text
            }
            return gatewayOrigin + path + reference.tail
        case .absolutePath:
            return isOnGateway(reference.path) ? nil : toClient(path: reference.path, reference.tail, of: text)
        case .relativePath:
            // A client resolves it within the route, unless it leads out of there.
            guard isAtPrefix || URIReference.hasDotSegments(target.path) else { return nil }
            return toClient(path: target.path, reference.tail, of: text)
        case .sameDocument: return nil
        }
    }

    /// - Parameter path: Of the upstream.
    private func toClient(path: [UInt8], _ tail: [UInt8], of text: [UInt8]) -> [UInt8]? {
        // Left as it is, it would lead to another route.
        guard let found = gatewayPath(own.origin, path) else {
            return Array(own.origin.description.utf8) + path + tail
        }
        let rewritten = found + tail
        return rewritten == text ? nil : rewritten
    }

    private var gatewayOrigin: [UInt8] { (gateway.origin?.description.utf8).map(Array.init) ?? [] }

    /// Where a client finds it; nil where no route of this credential leads there.
    private func gatewayPath(_ origin: Origin, _ path: [UInt8]) -> [UInt8]? {
        let path = path.isEmpty ? [UInt8(ascii: "/")] : URIReference.withoutDotSegments(path)
        for peer in table.peers(of: route, at: origin) {
            let place = table.places[peer]
            guard let rest = URIReference.rest(of: path, behind: place.base) else { continue }
            let start = peer == route && isByHost ? [] : place.prefix
            let found = start + rest
            let whole = found.isEmpty ? [UInt8(ascii: "/")] : found
            let full = gateway.path + whole
            // Two slashes in front would name another server.
            if leads(whole, to: peer), isReadAlike(whole, .open), !full.starts(with: Self.networkPath) { return full }
        }
        return nil
    }

    /// Whether every reading of the path finds the route that the path finds as it is written.
    private func isReadAlike(_ path: [UInt8], _ strictness: CanonicalPath.Strictness) -> Bool {
        switch CanonicalPath.judge(path.span, path.indices, strictness: strictness, refusesReadings: false) {
        case .unambiguous: return true
        case .refused: return false
        case .severalReadings:
            let match = table.find(host, path)
            let readings = try? PathReadings(path.span, path.indices)
            return readings?.all.allSatisfy { table.find(host, $0.path) == match } ?? false
        }
    }

    private func leads(_ path: [UInt8], to peer: Int) -> Bool {
        table.find(host, path) == (peer == route && isByHost ? .host(peer) : .path(peer))
    }

    /// It is a link to this route already.
    private func isOnGateway(_ origin: Origin, _ path: [UInt8]) -> Bool {
        origin == gateway.origin && (prefix.isEmpty || isOnGateway(path))
    }

    private func isOnGateway(_ path: [UInt8]) -> Bool {
        guard !prefix.isEmpty else { return false }
        let path = URIReference.withoutDotSegments(path)
        guard URIReference.rest(of: path, behind: prefix) != nil else { return false }
        return leads(Array(path.dropFirst(gateway.path.count)), to: route)
    }

    private static let networkPath = Array("//".utf8)

    // MARK: To the upstream

    /// The value of a `Destination` (RFC 4918 section 10.3) as the upstream has to see it.
    ///
    /// - Returns: nil where it stays as it is.
    package func toUpstream(_ text: [UInt8]) -> [UInt8]? {
        guard let reference = URIReference(text) else { return nil }
        let isWhole: Bool
        switch reference.form {
        case .absolute(let scheme, let authority):
            guard let scheme = Origin.Scheme(rawValue: scheme), let origin = URIReference.origin(scheme, authority),
                origin == gateway.origin
            else { return nil }
            isWhole = true
        case .absolutePath: isWhole = false
        case .network, .relativePath, .sameDocument: return nil
        }
        let path = reference.path.isEmpty ? [UInt8(ascii: "/")] : URIReference.withoutDotSegments(reference.path)
        guard let inside = URIReference.rest(of: path, behind: gateway.path), !inside.isEmpty,
            let match = table.find(host, inside), table.arePeers(route, match.route), isReadAlike(inside, .credentialed)
        else { return nil }
        let place = table.places[match.route]
        let stripped = if case .host = match { 0 } else { place.prefix.count }
        let target = place.base + inside.dropFirst(stripped)
        let rewritten = (target.isEmpty ? [UInt8(ascii: "/")] : target) + reference.tail
        // Two slashes in front would name another server.
        let needsOrigin = isWhole || place.origin != own.origin || rewritten.starts(with: Self.networkPath)
        return needsOrigin ? Array(place.origin.description.utf8) + rewritten : rewritten
    }
}
