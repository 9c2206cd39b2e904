import GatewayHTTP
import GatewayTokens
import NIOCore

/// Writes the head that goes upstream: hop-by-hop fields dropped first, the credential injected, the rest copied as it came.
///
/// Lent and never copied: there is one for every request.
struct RequestWriter: ~Copyable {
    let route: CredentialedRoute
    let match: RouteTable.Match
    /// Where the client's token for the gateway stands.
    let tokenPlaces: ClientTokenPlaces
    var content = RequestFieldRules.Content.awaited
    /// What tells where the request came from, where the route wants that told.
    var forwarded = ""
    /// Takes the place of the client's `Destination`, with its CRLF; empty where that stays.
    private(set) var destination: [UInt8] = []
    /// nil where `traceparent` is a field like any other.
    var trace: RequestTrace?
    /// nil unless ``route`` signs requests.
    var signature: RequestSignature?

    /// - Returns: Whether it was written, whole.
    func write(
        _ head: borrowing RequestHead,
        _ source: ByteBuffer,
        end: RequestEnd,
        into out: inout ByteBuffer
    ) -> Bool {
        // What is kept of the head is no longer than it; the rest is ours.
        let form = route.absoluteForm
        let own = ownBytes(end)
        return HeadCursor.append(to: &out, from: source, capacity: head.end + own) { cursor in
            cursor.copy(head.method)
            cursor.write(0x20)
            if let form { cursor.write(form.prefix) }
            writeTarget(head, source, &cursor)
            cursor.write(" HTTP/1.1\r\n")
            cursor.write(route.hostLine)
            if let form { form.loginLine.withValue { cursor.write($0) } }
            route.fieldLines.withValue { cursor.write($0) }
            if let signature { signature.lines.withValue { cursor.write($0) } }
            cursor.write(route.routeLines)
            writeFields(head, source, &cursor)
            if !forwarded.isEmpty { cursor.write(text: forwarded) }
            if !destination.isEmpty { cursor.write(destination) }
            if let trace, !trace.passesClients { write(trace, &cursor) }
            cursor.write(end.lines)
        }
    }

    /// Room for the words that a writer adds by itself, `traceparent` with its value among them.
    private static let wording = 136

    /// Room for all that does not come from the client's head.
    private func ownBytes(_ end: RequestEnd) -> Int {
        route.injectedBytes + forwarded.utf8.count + destination.count + end.lines.count + Self.wording
            + (signature?.size ?? 0) + (route.absoluteForm?.count ?? 0)
    }

    private func write(_ trace: RequestTrace, _ cursor: inout HeadCursor) {
        cursor.write("traceparent: 00-")
        cursor.write(digitsOf: trace.trace.high)
        cursor.write(digitsOf: trace.trace.low)
        cursor.write(0x2D)
        cursor.write(digitsOf: trace.upstreamSpan)
        cursor.write(trace.isSampled ? "-01\r\n" : "-00\r\n")
    }

    /// Why the client may not have that `Destination`; nil where it may, or where none of its own is forwarded.
    ///
    /// - Parameter links: nil where links stay as they are.
    mutating func takeDestination(
        of head: borrowing RequestHead,
        _ source: ByteBuffer,
        _ links: LinkRewriter?,
        client: String?,
        in shared: ProxyShared
    ) -> GatewayProblem? {
        guard head.present.contains(.destination), !route.requestFields.ownsDestination else { return nil }
        let bytes = source.readableBytesUInt8Span
        var value = head.onlyDestination.map { bytes.array($0.value) }
        if let rewritten = value.flatMap({ links?.toUpstream($0) }) {
            value = rewritten
            destination = Array("Destination: ".utf8) + rewritten + [0x0D, 0x0A]
        }
        // Without a route nothing of the gateway's is sent.
        guard route.pool.server == nil else { return nil }
        return shared.authorizer.forbid(
            destination: value,
            of: head.methodName(bytes),
            on: match.route,
            client: client,
            links: shared.links
        )
    }

    // MARK: Target

    private func writeTarget(_ head: borrowing RequestHead, _ source: ByteBuffer, _ cursor: inout HeadCursor) {
        let bytes = source.readableBytesUInt8Span
        if !route.basePath.isEmpty { cursor.write(route.basePath) }
        switch path(of: head, bytes) {
        case .nothing: break
        case .root: cursor.write(0x2F)
        // The URL without a path asks for the server as a whole (RFC 9112 section 3.2.4).
        case .server: if route.absoluteForm == nil { cursor.write(0x2A) }
        case .copied(let path): cursor.copy(path)
        }
        if let query = signature?.query {
            if !query.isEmpty { cursor.write(0x3F) }
            return cursor.write(query)
        }
        guard let injected = route.query else {
            guard tokenPlaces.areInQuery else { return cursor.copy(head.query) }
            return cursor.write(TargetRewrite.query(of: head, bytes, without: tokenPlaces))
        }
        cursor.write(0x3F)
        cursor.write(TargetRewrite.keptQuery(of: head, bytes, without: injected.name, or: tokenPlaces))
        cursor.write(injected.pair)
    }

    private func path(of head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> TargetRewrite.Path {
        TargetRewrite.path(
            of: head,
            bytes,
            forwarding: head.forwardedPath(match, without: route.prefix),
            hasBase: !route.basePath.isEmpty,
            injectsQuery: route.query != nil
        )
    }

    // MARK: Signature

    /// The request as it will be written, for the signer of ``route``.
    func signable(
        _ head: borrowing RequestHead,
        _ source: ByteBuffer,
        at time: UnixTime
    ) -> SignableRequest {
        let bytes = source.readableBytesUInt8Span
        let hasBody = if case .none = head.framing { false } else { true }
        let plan = route.state.route.plan
        let rest: [UInt8] =
            switch path(of: head, bytes) {
            case .nothing: []
            case .root: [0x2F]
            case .server: [0x2A]
            case .copied(let path): bytes.array(path)
            }
        let query = TargetRewrite.query(of: head, bytes, without: tokenPlaces)
        let options = fieldOptions
        let fields = head.section.fields.compactMap { field -> SignableRequest.Field? in
            let reason = route.requestFields.dropReason(of: field, in: head, bytes, options)
            guard reason != .clientToken else { return nil }
            let name = bytes.string(field.name).lowercased()
            return SignableRequest.Field(name: name, value: bytes.array(field.value), isForwarded: reason == nil)
        }
        return SignableRequest(
            method: head.methodName(bytes),
            path: route.basePath + rest,
            query: query.isEmpty ? nil : Array(query.dropFirst()),
            isTLS: plan.upstream.scheme == .https,
            host: plan.upstream.authority,
            fields: fields,
            added: plan.headers.set,
            hasBody: hasBody,
            time: time
        )
    }

    // MARK: HTTP/2

    /// Room for the frames of ``encode(_:_:end:isTLS:into:)``. No field takes more than ten bytes beyond its line in HTTP/1.
    func roomToEncode(_ head: borrowing RequestHead, end: RequestEnd) -> Int {
        let own = ownBytes(end)
        return head.end + own + 10 * (head.section.fields.count + own / 8)
    }

    /// Writes the same fields as ``write(_:_:end:into:)``, as those of HTTP/2. A request for an upgrade becomes one for a WebSocket
    /// (RFC 8441 section 5).
    ///
    /// A credential that a table remembers could be guessed bit by bit from the length of what is sent (RFC 7541 section 7.1), so
    /// it is never indexed, and neither are the cookies of clients that share the connection.
    ///
    /// - Parameter frames: Has begun a field block.
    func encode(
        _ head: borrowing RequestHead,
        _ source: ByteBuffer,
        end: RequestEnd,
        isTLS: Bool,
        into frames: inout HTTP2FrameWriter
    ) {
        let bytes = source.readableBytesUInt8Span
        if head.wantsUpgrade {
            frames.method("CONNECT")
            frames.protocolName("websocket")
        } else {
            frames.method(bytes, head.method)
        }
        frames.scheme(isTLS: isTLS)
        encodeTarget(head, bytes, &frames)
        route.encodedLines.withValue { frames.value($0) }
        if let signature {
            signature.lines.withValue { frames.fields($0.span, isRequest: true, isSecret: true) }
        }
        encodeFields(head, bytes, &frames)
        if !forwarded.isEmpty { frames.fields(Array(forwarded.utf8).span) }
        frames.fields(destination.span)
        if let trace, !trace.passesClients { encode(trace, &frames) }
        frames.value(end.fields)
        if head.takesTrailers(bytes) { frames.field(name: "te", "trailers") }
    }

    private func encodeTarget(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ frames: inout HTTP2FrameWriter
    ) {
        let path = path(of: head, bytes)
        let kept =
            if let injected = route.query {
                TargetRewrite.keptQuery(of: head, bytes, without: injected.name, or: tokenPlaces)
            } else if tokenPlaces.areInQuery {
                TargetRewrite.query(of: head, bytes, without: tokenPlaces)
            } else {
                [UInt8]()
            }
        let query: Int
        if let replaced = signature?.query {
            query = replaced.isEmpty ? 0 : 1 + replaced.count
        } else if let injected = route.query {
            query = 1 + kept.count + injected.pair.count
        } else {
            query = tokenPlaces.areInQuery ? kept.count : head.query.count
        }
        let length = route.basePath.count + path.length + query
        frames.path(length: length, isSecret: route.hasSecretTarget)
        frames.value(route.basePath)
        switch path {
        case .nothing: break
        case .root: frames.value("/")
        case .server: frames.value("*")
        case .copied(let path): frames.value(bytes, path)
        }
        if let query = signature?.query {
            if !query.isEmpty { frames.value("?") }
            return frames.value(query)
        }
        guard let injected = route.query else {
            return tokenPlaces.areInQuery ? frames.value(kept) : frames.value(bytes, head.query)
        }
        frames.value("?")
        frames.value(kept)
        frames.value(injected.pair)
    }

    private func encodeFields(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ frames: inout HTTP2FrameWriter
    ) {
        let options = fieldOptions
        var index = 0
        while let kept = route.requestFields.nextKept(of: head, bytes, options, from: &index) {
            for index in kept where !isLeftOut(head.section.fields[index], of: head, bytes) {
                frames.field(bytes, head.section.fields[index])
            }
        }
    }

    /// HTTP/2 has neither a framing in fields nor the key of a WebSocket.
    @inline(__always)
    private func isLeftOut(
        _ field: HeadField,
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> Bool {
        if case .transferEncoding = field.kind { return true }
        return head.wantsUpgrade && bytes.equalsLowercased(field.name, "sec-websocket-key")
    }

    private func encode(_ trace: RequestTrace, _ frames: inout HTTP2FrameWriter) {
        frames.field("traceparent", valueLength: 55)
        frames.value("00-")
        frames.value(digitsOf: trace.trace.high)
        frames.value(digitsOf: trace.trace.low)
        frames.value("-")
        frames.value(digitsOf: trace.upstreamSpan)
        frames.value(trace.isSampled ? "-01" : "-00")
    }

    // MARK: Fields

    private var fieldOptions: RequestFieldRules.Options {
        RequestFieldRules.Options(
            tokenPlaces: tokenPlaces,
            content: content,
            trace: trace?.fields ?? .pass,
            replacesDestination: !destination.isEmpty
        )
    }

    private func writeFields(_ head: borrowing RequestHead, _ source: ByteBuffer, _ cursor: inout HeadCursor) {
        let bytes = source.readableBytesUInt8Span
        let options = fieldOptions
        var index = 0
        while let kept = route.requestFields.nextKept(of: head, bytes, options, from: &index) {
            cursor.copy(head.section.lines(kept))
        }
        if head.wantsUpgrade {
            cursor.write("Connection: Upgrade\r\n")
            for field in head.section.fields where field.kind == .upgrade { cursor.copy(field.line) }
        }
    }
}

/// The end of a request's head, written once for all requests: our line in `Via`, or what stands in its place, and the empty line.
///
/// A class, so that a request takes one reference for both forms.
final class RequestEnd: Sendable {
    /// As HTTP/1 has it.
    let lines: [UInt8]
    /// The same as fields of HTTP/2, encoded.
    let fields: [UInt8]

    init(_ lines: [UInt8]) {
        self.lines = lines
        fields = HTTP2FrameWriter.encoded(room: HTTP2FrameWriter.room(for: lines.count, 0)) { $0.fields(lines.span) }
    }
}

/// The ends of heads, by the version that the request came in.
struct RequestEnds: Sendable {
    private let http11: RequestEnd
    private let http10: RequestEnd
    private let http2: RequestEnd

    init(_ lines: ViaLines) {
        http11 = RequestEnd(lines.line(isHTTP10: false))
        http10 = RequestEnd(lines.line(isHTTP10: true))
        http2 = RequestEnd(lines.line(isHTTP10: false, isHTTP2: true))
    }

    @inline(__always)
    func end(isHTTP10: Bool, isHTTP2: Bool) -> RequestEnd { isHTTP10 ? http10 : isHTTP2 ? http2 : http11 }
}
