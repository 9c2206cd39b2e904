/// Keeps a cookie of an upstream to its route (RFC 6265 section 4.1.2): the gateway's other routes have other upstreams.
struct CookieScope {
    private let rewriter: LinkRewriter

    init(_ rewriter: LinkRewriter) { self.rewriter = rewriter }

    /// - Parameter value: Of a `Set-Cookie`.
    /// - Returns: nil where it stays as it is.
    func rewrite(_ value: [UInt8]) -> [UInt8]? {
        var parts = value.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false).map(Array.init)
        var kept = Array(parts.prefix(1))
        // Of several the last counts.
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
