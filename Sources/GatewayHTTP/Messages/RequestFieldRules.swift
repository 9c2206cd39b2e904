/// Which fields of a request go upstream: those of a connection end here, and so does what the route sets or removes.
package struct RequestFieldRules: Sendable {
    /// Names that only the route may set, in lower case, with `_` read as `-`. `authorization` is not among them.
    package let ownedNames: [[UInt8]]
    /// The client's `Authorization` is forwarded, unless the request used it to authenticate to the gateway.
    package let keepsAuthorization: Bool
    /// The client's cookies are not forwarded.
    package let dropsCookies: Bool
    /// What the client says of where the request came from is not forwarded.
    package let dropsForwarded: Bool

    /// How much of the body the gateway has when the head is written.
    package enum Content: UInt8, Sendable {
        /// Nothing yet, so the upstream can be asked first (`Expect`).
        case awaited
        /// At least its beginning.
        case begun
        /// All of it, so its length is sent instead of chunks.
        case collected
    }

    /// What differs between the requests of a route.
    package struct Options: Hashable, Sendable {
        /// Where the client's token for the gateway stands.
        package let tokenPlaces: ClientTokenPlaces
        package let content: Content
        package let trace: TraceFields
        /// The gateway writes a `Destination` of its own.
        package let replacesDestination: Bool

        package init(
            tokenPlaces: ClientTokenPlaces,
            content: Content,
            trace: TraceFields = .pass,
            replacesDestination: Bool = false
        ) {
            self.tokenPlaces = tokenPlaces
            self.content = content
            self.trace = trace
            self.replacesDestination = replacesDestination
        }
    }

    /// The route sets or removes `traceparent` itself: the gateway writes none.
    package let ownsTraceParent: Bool

    /// The route sets or removes `Destination` itself.
    package var ownsDestination: Bool { ownedNames.contains(Array("destination".utf8)) }

    package init(ownedNames: [[UInt8]], keepsAuthorization: Bool, dropsCookies: Bool, dropsForwarded: Bool) {
        self.ownedNames = ownedNames
        ownsTraceParent = ownedNames.contains(TraceFields.parentName)
        self.keepsAuthorization = keepsAuthorization
        self.dropsCookies = dropsCookies
        self.dropsForwarded = dropsForwarded
    }

    // MARK: Forwarding

    /// Why a field is not forwarded.
    package enum DropReason: UInt8, Sendable {
        /// Each upstream gets its own `Host`.
        case host
        /// It proved to the gateway which client this is.
        case clientToken
        /// The route injects a credential, or removes the field.
        case authorization
        /// No content waits, or it has been asked for.
        case expectation
        /// The length of the body is known, and is sent instead.
        case framing
        case forwardedPolicy
        case cookiePolicy
        /// It belongs to one connection.
        case hopByHop
        /// Only the route may set it, or the route removes it.
        case owned
        /// `Connection` names it.
        case nominated
        /// The gateway continues the trace, or begins one.
        case trace
        /// It names a place on the gateway. The upstream's name for that place is sent instead.
        case link
    }

    /// Why the field is not forwarded; nil for one that is.
    @inline(__always)
    package func dropReason(
        of field: HeadField,
        in head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ options: Options
    ) -> DropReason? {
        switch field.kind {
        case .host: return .host
        case .authorization:
            if options.tokenPlaces.hasAuthorization { return .clientToken }
            return keepsAuthorization ? nil : .authorization
        case .contentLength: return nil
        case .transferEncoding:
            if case .collected = options.content { return .framing }
            return nil
        case .expect:
            if head.expectsContinue, case .awaited = options.content { return nil }
            return .expectation
        case .forwarded where dropsForwarded: return .forwardedPolicy
        case .cookie where dropsCookies: return .cookiePolicy
        case .destination where options.replacesDestination: return .link
        default:
            if field.kind.isHopByHop { return .hopByHop }
            if owns(field, bytes) { return .owned }
            if options.trace != .pass, options.trace.drops(field, bytes) { return .trace }
            if options.tokenPlaces.hasKeyField, options.tokenPlaces.has(field, bytes) { return .clientToken }
            for name in head.options.nominated where bytes.equalsLowercased(field.name, name) { return .nominated }
            return nil
        }
    }

    @inline(__always)
    private func keeps(
        _ field: HeadField,
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ options: Options
    ) -> Bool {
        if case nil = dropReason(of: field, in: head, bytes, options) { true } else { false }
    }

    /// The next fields that are forwarded as they came and follow each other; nil where none is left.
    ///
    /// The loop over the fields stands here and not with its caller: for most fields the call into another module would cost more
    /// than the decision.
    ///
    /// - Parameter index: The index of the field to begin with; then of the one to go on with.
    package func nextKept(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ options: Options,
        from index: inout Int
    ) -> Range<Int>? {
        let count = head.section.fields.count
        while index < count, !keeps(head.section.fields[index], of: head, bytes, options) { index &+= 1 }
        guard index < count else { return nil }
        let first = index
        index &+= 1
        while index < count, keeps(head.section.fields[index], of: head, bytes, options) { index &+= 1 }
        return first..<index
    }

    @inline(__always)
    private func owns(_ field: HeadField, _ bytes: borrowing Span<UInt8>) -> Bool {
        for name in ownedNames where bytes.equalsLowercased(field.name, name) { return true }
        return false
    }

    // MARK: Refusals

    /// Why these rules cannot be kept with such a head; nil where they can.
    ///
    /// - Parameter tokenPlaces: Where the client's token for the gateway stands.
    package func refusal(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ tokenPlaces: ClientTokenPlaces
    ) -> GatewayProblem? {
        if keepsAuthorization, !tokenPlaces.hasAuthorization, head.present.contains(.secondAuthorization) {
            return GatewayProblem(.requestRefused, "The request has more than one Authorization header.")
        }
        guard head.section.hasUnderscore, hasLookAlike(head, bytes) else { return nil }
        return GatewayProblem(
            .requestRefused,
            "The name of a header field could be mistaken for one that the gateway sets."
        )
    }

    /// A field that an upstream could read as one that the route injects: `X_Api_Key` for `X-Api-Key`, say.
    ///
    /// Exact names are dropped when the head is written. A look-alike is refused: no client sends one by accident.
    func hasLookAlike(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        guard head.section.hasUnderscore else { return false }
        for field in head.section.fields {
            guard let name = Self.dashedIfUnderscored(bytes, field.name) else { continue }
            if name == Array("authorization".utf8) {
                if !keepsAuthorization { return true }
            } else if ownedNames.contains(name), !owns(field, bytes) {
                return true
            } else if dropsForwarded, FieldKind.isForwarded(name) {
                return true
            }
        }
        return false
    }

    private static func dashedIfUnderscored(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> [UInt8]? {
        var name: [UInt8] = []
        var hasUnderscore = false
        for index in range {
            if bytes[index] == 0x5F { hasUnderscore = true }
            name.append(bytes[index].asciiDashed)
        }
        return hasUnderscore ? name : nil
    }
}

/// Where a request can have its client's token for the gateway: in `Authorization`, and in the fields and parameters of the query that
/// many SDKs use for their API key. What stands there is not forwarded.
package struct ClientTokenPlaces: OptionSet, Hashable, Sendable {
    package private(set) var rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// An empty array literal costs every request 700 instructions in modules other than this one.
    package static var none: ClientTokenPlaces { ClientTokenPlaces(rawValue: 0) }
    package static var authorization: ClientTokenPlaces { ClientTokenPlaces(rawValue: authorizationBit) }

    private static let authorizationBit: UInt16 = 0x8000
    private static let parameterBits: UInt16 = 0x7F00
    private static let fieldBits: UInt16 = 0x00FF

    private static let fields: [StaticString] = [
        "x-api-key", "api-key", "x-goog-api-key", "private-token", "xi-api-key",
    ]
    private static let parameters: [StaticString] = ["key", "api_key", "access_token"]
    /// The bits of parameters follow those of fields.
    private static let firstParameter = 8

    /// Empty for a field with another name.
    package init(_ field: HeadField, _ bytes: borrowing Span<UInt8>) {
        self.init(rawValue: 0)
        for (index, name) in Self.fields.enumerated() where bytes.equalsLowercased(field.name, name) {
            self.init(rawValue: 1 << UInt16(index))
        }
    }

    /// - Parameter name: The name of a parameter, as it is written. Empty for another one.
    package init(parameter name: Range<Int>, _ bytes: borrowing Span<UInt8>) {
        let name = PercentEncoding.decodeLeniently(bytes, name, isForm: true)
        let index = Self.parameters.firstIndex { "\($0)".utf8.elementsEqual(name) }
        self.init(rawValue: index.map { 1 << UInt16(Self.firstParameter + $0) } ?? 0)
    }

    // Checked for every request, so not with methods of option sets.

    package var hasAuthorization: Bool {
        get { rawValue & Self.authorizationBit != 0 }
        set { rawValue = newValue ? rawValue | Self.authorizationBit : rawValue & ~Self.authorizationBit }
    }

    /// Whether a field for API keys is among them.
    package var hasKeyField: Bool { rawValue & Self.fieldBits != 0 }

    /// Whether a parameter of the query is among them.
    package var areInQuery: Bool { rawValue & Self.parameterBits != 0 }

    fileprivate var parameterNames: [[UInt8]] {
        Self.parameters.enumerated().compactMap { index, name in
            rawValue & 1 << UInt16(Self.firstParameter + index) == 0 ? nil : Array("\(name)".utf8)
        }
    }

    func has(_ field: HeadField, _ bytes: borrowing Span<UInt8>) -> Bool {
        guard case .other = field.kind else { return false }
        return !intersection(ClientTokenPlaces(field, bytes)).isEmpty
    }
}

/// What becomes of the value of one field on its way to the client.
package enum FieldRewrite: Hashable, Sendable {
    case unchanged
    case replaced([UInt8])
    /// The whole field is left out.
    case dropped
}

/// What becomes of a request's `traceparent` and `tracestate`.
package enum TraceFields: Hashable, Sendable {
    /// They are forwarded as they came, like any other field.
    case pass
    /// The gateway writes `traceparent`; `tracestate` belongs to the same trace and is forwarded.
    case replaceParent
    /// The gateway begins another trace, to which `tracestate` does not belong.
    case replaceAll

    static let parentName = Array("traceparent".utf8)
    private static let stateName = Array("tracestate".utf8)

    static func isParent(_ field: HeadField, _ bytes: borrowing Span<UInt8>) -> Bool {
        field.kind == .other && bytes.equalsLowercased(field.name, parentName)
    }

    func drops(_ field: HeadField, _ bytes: borrowing Span<UInt8>) -> Bool {
        switch self {
        case .pass: false
        case .replaceParent: Self.isParent(field, bytes)
        case .replaceAll:
            Self.isParent(field, bytes)
                || field.kind == .other && bytes.equalsLowercased(field.name, Self.stateName)
        }
    }
}

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

        package var length: Int {
            switch self {
            case .nothing: 0
            case .root, .server: 1
            case .copied(let path): path.count
            }
        }
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
        return kept(bytes, head.query.lowerBound + 1..<head.query.upperBound, without: name)
    }

    /// Like ``keptQuery(of:_:without:)``, and without the parameters with which the client has authenticated to the gateway.
    package static func keptQuery(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        without name: [UInt8],
        or places: ClientTokenPlaces
    ) -> [UInt8] {
        var query = keptQuery(of: head, bytes, without: name)
        guard places.areInQuery else { return query }
        for name in places.parameterNames where !query.isEmpty {
            let rest = kept(query.span, 0..<query.count - 1, without: name)
            query = rest
        }
        return query
    }

    /// The client's query with its question mark, without the parameters with which the client has authenticated to the gateway;
    /// empty where nothing is left.
    package static func query(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        without places: ClientTokenPlaces
    ) -> [UInt8] {
        guard let first = places.parameterNames.first else { return bytes.array(head.query) }
        let kept = keptQuery(of: head, bytes, without: first, or: places)
        return kept.isEmpty ? [] : [0x3F] + kept.dropLast()
    }

    /// Like ``keptQuery(of:_:without:)``.
    ///
    /// - Parameter query: Where it stands in `bytes`, without its question mark.
    package static func kept(
        _ bytes: borrowing Span<UInt8>,
        _ query: Range<Int>,
        without name: [UInt8]
    ) -> [UInt8] {
        guard !query.isEmpty else { return [] }
        let name = PercentEncoding.decodeLeniently(name.span, 0..<name.count, isForm: true)
        var kept: [UInt8] = []
        kept.reserveCapacity(query.count + 1)
        var keptCount = 0
        var start = query.lowerBound
        var separator = ampersand
        for index in start...query.upperBound {
            let isEnd = index == query.upperBound
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
