/// What of a request's target goes upstream, behind the base path of the route (RFC 9112 section 3.2).
package enum TargetRewrite {
    /// What follows the base path.
    package enum Path: Hashable, Sendable {
        case nothing
        /// `/`
        case root
        /// `*`
        case server
        /// These bytes, as the client sent them.
        case copied(Range<Int>)
    }

    /// - Parameters:
    ///   - path: The part of the client's path that is forwarded; empty means the root.
    ///   - hasBase: The route has a base path.
    ///   - injectsQuery: The route adds a query parameter.
    package static func path(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        forwarding path: Range<Int>,
        hasBase: Bool,
        injectsQuery: Bool
    ) -> Path {
        if head.form == .asterisk {
            // The server as a whole is not ours to ask; the base path stands for it.
            if hasBase { return .nothing }
            // The asterisk stands alone (RFC 9112 section 3.2.4).
            if injectsQuery { return .root }
        }
        guard path.isEmpty else { return .copied(path) }
        if hasBase { return .nothing }
        return head.asksForServer(bytes) && !injectsQuery ? .server : .root
    }

    // MARK: Query

    /// What stands before an injected query parameter: the client's parameters but those of that name, also where an upstream
    /// takes `;` for an end as `&` is. Ends with `&`, or is empty.
    ///
    /// The rest stays as it came, separators and empty ones included: some upstreams take only `&` for an end.
    ///
    /// - Parameter name: The name of the injected parameter, percent-encoded.
    package static func keptQuery(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        without name: [UInt8]
    ) -> [UInt8] {
        guard head.query.count > 1 else { return [] }
        let name = PercentEncoding.decodeLeniently(name.span, 0..<name.count, isForm: true)
        var kept: [UInt8] = []
        kept.reserveCapacity(head.query.count)
        var keptCount = 0
        var start = head.query.lowerBound + 1
        var separator = ampersand
        for index in start...head.query.upperBound {
            let isEnd = index == head.query.upperBound
            guard isEnd || bytes[index] == ampersand || bytes[index] == semicolon else { continue }
            let isCut = Self.name(bytes, start..<index) == name
            if !isCut {
                if keptCount > 0 { kept.append(separator) }
                for position in start..<index { kept.append(bytes[position]) }
                keptCount += 1
            }
            start = index + 1
            // If one of the two separators around the part that is cut is `&`, it stays: not every server splits at `;`.
            if !isEnd, !isCut || separator == semicolon { separator = bytes[index] }
        }
        guard !kept.isEmpty else { return [] }
        kept.append(ampersand)
        return kept
    }

    private static let ampersand: UInt8 = 0x26
    private static let semicolon: UInt8 = 0x3B

    private static func name(_ bytes: borrowing Span<UInt8>, _ parameter: Range<Int>) -> [UInt8] {
        var end = parameter.lowerBound
        while end < parameter.upperBound, bytes[end] != 0x3D { end += 1 }
        return PercentEncoding.decodeLeniently(bytes, parameter.lowerBound..<end, isForm: true)
    }
}
