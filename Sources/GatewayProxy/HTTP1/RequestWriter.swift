import GatewayHTTP
import NIOCore

/// Writes the head that goes upstream: hop-by-hop fields dropped first, the credential injected, the rest copied as it came.
struct RequestWriter {
    let route: CredentialedRoute
    let match: RouteTable.Match
    /// The client used `Authorization` to authenticate to the gateway.
    let stripsAuthorization: Bool
    /// The upstream is asked before content is sent.
    var sendsExpect = true
    /// What tells where the request came from, where the route wants that told.
    var forwarded = ""
    /// Takes the place of the client's `Destination`, with its CRLF; empty where that stays.
    private(set) var destination: [UInt8] = []
    /// nil where `traceparent` is a field like any other.
    var trace: RequestTrace?

    /// - Parameter end: The last lines, the empty one included.
    /// - Returns: Whether it was written, whole.
    func write(
        _ head: borrowing RequestHead,
        _ source: ByteBuffer,
        end: [UInt8],
        into out: inout ByteBuffer
    ) -> Bool {
        // What is kept of the head is no longer than it; the rest is ours.
        let own = route.injectedBytes + forwarded.utf8.count + destination.count + end.count
        return HeadCursor.append(to: &out, from: source, capacity: head.end + own + Self.wording) { cursor in
            cursor.copy(head.method)
            cursor.write(0x20)
            writeTarget(head, source, &cursor)
            cursor.write(" HTTP/1.1\r\n")
            cursor.write(route.hostLine)
            route.fieldLines.withValue { cursor.write($0) }
            cursor.write(route.routeLines)
            writeFields(head, source, &cursor)
            if !forwarded.isEmpty { cursor.write(text: forwarded) }
            if !destination.isEmpty { cursor.write(destination) }
            if let trace, !trace.passesClients { write(trace, &cursor) }
            cursor.write(end)
        }
    }

    /// Room for the words that a writer adds by itself, `traceparent` with its value among them.
    private static let wording = 136

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
        let path = TargetRewrite.path(
            of: head,
            bytes,
            forwarding: head.forwardedPath(match, without: route.prefix),
            hasBase: !route.basePath.isEmpty,
            injectsQuery: route.query != nil
        )
        switch path {
        case .nothing: break
        case .root: cursor.write(0x2F)
        case .server: cursor.write(0x2A)
        case .copied(let path): cursor.copy(path)
        }
        guard let injected = route.query else { return cursor.copy(head.query) }
        cursor.write(0x3F)
        cursor.write(TargetRewrite.keptQuery(of: head, bytes, without: injected.name))
        cursor.write(injected.pair)
    }

    // MARK: Fields

    private func writeFields(_ head: borrowing RequestHead, _ source: ByteBuffer, _ cursor: inout HeadCursor) {
        let bytes = source.readableBytesUInt8Span
        let options = RequestFieldRules.Options(
            stripsAuthorization: stripsAuthorization,
            sendsExpect: sendsExpect,
            trace: trace?.fields ?? .pass,
            replacesDestination: !destination.isEmpty
        )
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
