package import GatewayHTTP

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
    /// What the path of a link to this route begins with.
    fileprivate let prefix: [UInt8]

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

    /// How many bytes longer a rewritten reference is, at most.
    private var maximumGrowth: Int {
        let longest = table.longest(of: route)
        return gateway.path.count + (gateway.origin?.description.utf8.count ?? 0) + longest.origin + longest.path
            + forwarded.count + 2
    }

    fileprivate var own: LinkTable.Place { table.places[route] }
    /// The request's path is the route's own: a client takes what is relative to it for something of the gateway's.
    fileprivate var isAtPrefix: Bool { forwarded.isEmpty && !prefix.isEmpty }

    // MARK: To the client

    /// - Returns: nil where the reference stays as it is.
    private func toClient(_ text: [UInt8]) -> [UInt8]? {
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

    /// - Parameter path: A path of the upstream.
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
    func toUpstream(_ text: [UInt8]) -> [UInt8]? {
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

    // MARK: Fields of responses

    /// A bit for each ``FieldKind`` that has links.
    static let concerned: UInt64 = [FieldKind.uriReference, .setCookie].reduce(0) {
        $0 | 1 << UInt64($1.rawValue)
    }

    /// How many bytes longer the rewritten fields of a head are, at most; nil if that would be too many.
    package func room(for head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Int? {
        let growth = maximumGrowth
        var room = 0
        for field in head.fields {
            switch field.kind {
            case .uriReference: room += growth * max(1, Self.count(UInt8(ascii: "<"), in: bytes, field.value))
            case .setCookie:
                let attributes = Self.count(UInt8(ascii: ";"), in: bytes, field.value) + 1
                room += (prefix.count + "; Path=".utf8.count) * attributes
            default: break
            }
        }
        return room <= Self.maximumRoom ? room : nil
    }

    static let maximumRoom = 65_536

    private static func count(_ byte: UInt8, in bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> Int {
        var count = 0
        for index in value where bytes[index] == byte { count += 1 }
        return count
    }

    /// - Parameter name: The name of the field.
    func rewrite(_ kind: FieldKind, name: Range<Int>, _ value: [UInt8]) -> FieldRewrite {
        let rewritten: [UInt8]? =
            switch (kind, name.count) {
            case (.setCookie, _): CookieScope(rewriter: self).rewrite(value)
            case (.uriReference, "link".utf8.count): rewriteLinks(value)
            case (.uriReference, "refresh".utf8.count): rewriteRefresh(value)
            case (.uriReference, _): toClient(value)
            default: nil
            }
        return rewritten.map { .replaced($0) } ?? .unchanged
    }

    /// `<https://api.example/items?page=2>; rel="next", …` (RFC 8288 section 3)
    private func rewriteLinks(_ value: [UInt8]) -> [UInt8]? {
        var rewritten: [UInt8] = []
        var isChanged = false
        var index = 0
        var isQuoted = false
        while index < value.count {
            let byte = value[index]
            if !isQuoted, byte == UInt8(ascii: "<") {
                guard let end = value[index...].firstIndex(of: UInt8(ascii: ">")) else { return nil }
                let reference = Array(value[(index + 1)..<end])
                let link = toClient(reference)
                isChanged = isChanged || link != nil
                rewritten += [byte] + (link ?? reference) + [UInt8(ascii: ">")]
                index = end + 1
                continue
            }
            rewritten.append(byte)
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if isQuoted, byte == UInt8(ascii: "\\"), index + 1 < value.count {
                index += 1
                rewritten.append(value[index])
            }
            index += 1
        }
        return isChanged && !isQuoted ? rewritten : nil
    }

    /// `5; url=https://api.example/wait`, as browsers read it.
    private func rewriteRefresh(_ value: [UInt8]) -> [UInt8]? {
        var index = value.prefix { $0.isDigit || $0 == UInt8(ascii: ".") }.count
        guard index > 0 else { return nil }
        func skipSpace() { while index < value.count, value[index].isOptionalWhitespace { index += 1 } }
        skipSpace()
        guard index < value.count, value[index] == UInt8(ascii: ";") || value[index] == UInt8(ascii: ",") else {
            return nil
        }
        index += 1
        skipSpace()
        guard value[index...].prefix(3).map(\.asciiLowercased) == Array("url".utf8) else { return nil }
        index += 3
        skipSpace()
        guard index < value.count, value[index] == UInt8(ascii: "=") else { return nil }
        index += 1
        skipSpace()
        var end = value.count
        if index < end, value[index] == UInt8(ascii: "'") || value[index] == UInt8(ascii: "\"") {
            guard let close = value[(index + 1)...].firstIndex(of: value[index]) else { return nil }
            index += 1
            end = close
        }
        return toClient(Array(value[index..<end])).map { value[..<index] + $0 + value[end...] }
    }
}

/// Keeps a cookie of an upstream to its route (RFC 6265 section 4.1.2): the gateway's other routes have other upstreams.
private struct CookieScope {
    let rewriter: LinkRewriter

    /// - Parameter value: The value of a `Set-Cookie`.
    /// - Returns: nil where it stays as it is.
    func rewrite(_ value: [UInt8]) -> [UInt8]? {
        var parts = value.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false).map(Array.init)
        var kept = Array(parts.prefix(1))
        // The last of several counts.
        var hasPath = false
        for part in parts.dropFirst() {
            let attribute = Attribute(part)
            switch attribute.name {
            case "domain" where isUpstream(attribute.value): continue
            case "path":
                hasPath = attribute.value.first == UInt8(ascii: "/")
                kept.append(hasPath ? attribute.replacing(with: path(attribute.value)) : part)
            default: kept.append(part)
            }
        }
        // A client would take the directory of the request's path, which is the whole gateway there.
        if !hasPath, rewriter.isAtPrefix { kept.append(Array(" Path=".utf8) + rewriter.prefix) }
        swap(&parts, &kept)
        let rewritten = Array(parts.joined(separator: [UInt8(ascii: ";")]))
        return rewritten == value ? nil : rewritten
    }

    private func path(_ path: [UInt8]) -> [UInt8] {
        let (prefix, base) = (rewriter.prefix, rewriter.own.base)
        if !prefix.isEmpty, URIReference.rest(of: path, behind: prefix) != nil { return path }
        // A cookie for more than what the route leads to is for all of the route.
        let directory = path.last == UInt8(ascii: "/") ? path.dropLast() : path[...]
        let root = prefix.isEmpty ? [UInt8(ascii: "/")] : prefix
        if URIReference.rest(of: base, behind: Array(directory)) != nil { return root }
        guard let rest = URIReference.rest(of: path, behind: base) else { return prefix + path }
        return rest.isEmpty ? root : prefix + rest
    }

    /// The upstream may set cookies for the domain. The gateway has another one.
    private func isUpstream(_ value: [UInt8]) -> Bool {
        let dotless = value.first == UInt8(ascii: ".") ? value.dropFirst() : value[...]
        let domain = String(decoding: dotless, as: UTF8.self).lowercased()
        let host = rewriter.own.origin.host
        return !domain.isEmpty && (host == domain || host.hasSuffix(".\(domain)"))
    }

    private struct Attribute {
        private let part: [UInt8]
        private let valueRange: Range<Int>
        /// In lower case.
        let name: String

        init(_ part: [UInt8]) {
            self.part = part
            let equals = part.firstIndex(of: UInt8(ascii: "=")) ?? part.count
            let range = part.span.trimmed(0..<equals)
            name = String(decoding: part[range], as: UTF8.self).lowercased()
            valueRange = part.span.trimmed(min(equals + 1, part.count)..<part.count)
        }

        var value: [UInt8] { Array(part[valueRange]) }

        func replacing(with value: [UInt8]) -> [UInt8] {
            part[..<valueRange.lowerBound] + value + part[valueRange.upperBound...]
        }
    }
}
