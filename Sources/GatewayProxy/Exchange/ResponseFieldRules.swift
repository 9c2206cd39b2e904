package import GatewayHTTP
package import GatewayTokens

/// Which fields of an upstream's answer go to the client, and in what form: those of a connection end here, and so does what would
/// give the credential away.
package struct ResponseFieldRules: Sendable {
    /// The names of the credential's fields in lower case, with `_` read as `-`: an upstream that echoes its request must not give
    /// the credential away.
    private let credentialNames: [[UInt8]]
    private let policy: ResponsePolicy
    /// The field that names the request, in lower case, `_` read as `-`: only the gateway writes it. Empty where it writes none.
    private let requestIDName: [UInt8]
    /// The gateway tells browsers which pages may call; what the upstream says of that is dropped.
    private let answersPages: Bool
    /// A bit for each kind of field that is forwarded as it came, whatever else the response says, unless its name is one that only the
    /// gateway may send. Most fields need no further look.
    private let plainKinds: UInt64
    /// A bit for each length that such a name has, the last one for all longer ones.
    private let nameLengths: UInt64

    /// Lower-case names of fields that no trailer of the response may have.
    var namesKeptFromTrailers: [[UInt8]] {
        requestIDName.isEmpty ? credentialNames : credentialNames + [requestIDName]
    }

    /// What becomes of one field, or of some that follow each other.
    package enum Piece: Hashable, Sendable {
        /// These are forwarded as they came.
        case kept(Range<Int>)
        /// Another value takes the place of this one's.
        case rewritten(HeadField, value: [UInt8])
        /// A `Set-Cookie` that the route does not forward: the answer has to say so (``CookiePolicy/note``).
        case droppedCookie
    }

    /// What differs between the responses of a route.
    package struct Options: Sendable {
        /// nil where links stay as they are.
        var links: LinkRewriter?
        /// How many bytes more than the upstream's the head may have for them.
        package var room = 0
        /// Lines that tell the browser of a page what the page may read; empty where no page of another origin may call.
        var crossOrigin: [UInt8] = []
        /// The page may read all fields of the response, whatever they are.
        var exposesFields = false
        /// The content that is sent may have another length.
        var changesLength = false
        /// The client asked the upstream's own host by TLS, so its `Strict-Transport-Security` is about that host.
        var keepsTransportSecurity = false

        package init() {}
    }

    /// - Parameters:
    ///   - requestIDHeader: The field that the gateway names the request in; nil where it does not.
    ///   - answersPages: Pages of other origins may call the route.
    package init(
        credentialNames: [[UInt8]],
        requestIDHeader: String? = nil,
        answersPages: Bool = false,
        policy: ResponsePolicy
    ) {
        self.answersPages = answersPages
        self.credentialNames = credentialNames
        requestIDName = (requestIDHeader?.utf8).map { $0.map(\.asciiDashed) } ?? []
        self.policy = policy
        let plain: [FieldKind] = [.other, .date, .setCookie, .uriReference, .via, .wwwAuthenticate]
        plainKinds = plain.reduce(0) { $0 | 1 << UInt64($1.rawValue) } & ~policy.concerned
        nameLengths = (credentialNames + [requestIDName]).reduce(0) { $0 | Self.bit(ofLength: $1.count) }
    }

    @inline(__always)
    private static func bit(ofLength length: Int) -> UInt64 { 1 &<< UInt64(truncatingIfNeeded: min(length, 63)) }

    /// The next kept fields that follow each other, or one that is not simply kept; nil where none is left.
    ///
    /// - Parameters:
    ///   - knowsChunks: The client is sent the content in the upstream's chunks.
    ///   - links: nil where links stay as they are.
    ///   - keepsTransportSecurity, changesLength: Those of ``Options``.
    ///   - index: The index of the field to begin with; then of the one to go on with.
    package func next(
        of head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        knowsChunks: Bool,
        links: LinkRewriter? = nil,
        keepsTransportSecurity: Bool = false,
        changesLength: Bool = false,
        from index: inout Int
    ) -> Piece? {
        let count = head.section.fields.count
        let concerned = policy.concerned | (links == nil ? 0 : LinkRewriter.concerned)
        let plain = head.options.nominated.isEmpty ? plainKinds & ~concerned : 0
        var first = index
        while index < count {
            let field = head.section.fields[index]
            if plain >> UInt64(field.kind.rawValue) & 1 == 1, nameLengths & Self.bit(ofLength: field.name.count) == 0 {
                index &+= 1
                continue
            }
            let isKept = keeps(
                field,
                of: head,
                bytes,
                knowsChunks: knowsChunks,
                keepsTransportSecurity,
                changesLength: changesLength
            )
            if isKept, concerned >> UInt64(field.kind.rawValue) & 1 == 0 {
                index &+= 1
                continue
            }
            guard first == index else { return .kept(first..<index) }
            index &+= 1
            first = index
            guard isKept else { continue }
            switch rewrite(field, bytes.array(field.value), links) {
            case .unchanged: return .kept(index &- 1..<index)
            case .replaced(let value): return .rewritten(field, value: value)
            case .dropped: if field.kind == .setCookie { return .droppedCookie }
            }
        }
        return first < index ? .kept(first..<index) : nil
    }

    private func rewrite(_ field: HeadField, _ value: [UInt8], _ links: LinkRewriter?) -> FieldRewrite {
        let rewrite = policy.rewrite(field.kind, value)
        guard let links else { return rewrite }
        switch rewrite {
        case .unchanged: return links.rewrite(field.kind, name: field.name, value)
        case .replaced(let value):
            let again = links.rewrite(field.kind, name: field.name, value)
            return again == .unchanged ? rewrite : again
        case .dropped: return rewrite
        }
    }

    @inline(__always)
    private func keeps(
        _ field: HeadField,
        of head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        knowsChunks: Bool,
        _ keepsTransportSecurity: Bool,
        changesLength: Bool
    ) -> Bool {
        switch field.kind {
        case .transferEncoding where changesLength, .contentLength where changesLength: return false
        case .transferEncoding: return knowsChunks && head.status >= 200 && head.status != 204
        case .contentLength: return head.status >= 200 && head.status != 204
        // An upstream that echoes the request's credential.
        case .authorization: return false
        case .accessControl where answersPages: return false
        // It would lead the client around the gateway.
        case .altSvc: return false
        // Elsewhere it would be about the gateway's own host.
        case .strictTransportSecurity where !keepsTransportSecurity: return false
        default:
            if field.kind.isHopByHop { return false }
            // The length first: few fields have it.
            if field.name.count == requestIDName.count, bytes.equalsDashed(field.name, requestIDName) { return false }
            guard !head.options.nominated.isEmpty || !credentialNames.isEmpty else { return true }
            for name in head.options.nominated where bytes.equalsLowercased(field.name, name) { return false }
            for name in credentialNames where bytes.equalsDashed(field.name, name) { return false }
            return true
        }
    }
}

/// Decides what becomes of response fields that could hand a client more than the response: sessions, credentials, and ways to
/// authenticate a connection that clients share.
package struct ResponsePolicy: Sendable {
    private let echo: CredentialLeakFilter?
    /// A bit for each ``FieldKind`` that has to be looked at.
    fileprivate let concerned: UInt64

    /// - Parameters:
    ///   - allowsConnectionAuth: The upstream connection belongs to one client connection alone.
    ///   - echo: Finds the credential in URIs; nil where no target holds it.
    package init(
        cookies: CookiePolicy = .pass,
        allowsConnectionAuth: Bool = false,
        echo: CredentialLeakFilter? = nil
    ) {
        self.echo = echo
        var kinds: [FieldKind] = []
        if cookies.drops(.setCookie) { kinds.append(.setCookie) }
        if !allowsConnectionAuth { kinds.append(.wwwAuthenticate) }
        if echo != nil { kinds.append(.uriReference) }
        concerned = kinds.reduce(0) { $0 | 1 << UInt64($1.rawValue) }
    }

    /// Whether fields of this kind are not always passed on as they are.
    @inline(__always)
    func concerns(_ kind: FieldKind) -> Bool { concerned >> UInt64(kind.rawValue) & 1 == 1 }

    package func rewrite(_ kind: FieldKind, _ value: [UInt8]) -> FieldRewrite {
        guard concerns(kind) else { return .unchanged }
        switch kind {
        case .setCookie: return .dropped
        case .wwwAuthenticate: return ConnectionAuthentication.rewrite(challenges: value)
        case .uriReference: return echo?.rewrite(value) ?? .unchanged
        default: return .unchanged
        }
    }
}
