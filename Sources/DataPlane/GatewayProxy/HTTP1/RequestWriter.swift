import GatewayCore
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

    /// A field that an upstream could read as one that the route injects: `X_Api_Key` for `X-Api-Key`, say.
    ///
    /// Exact names are dropped when the head is written. A look-alike is refused, because clients do not send one by
    /// accident.
    func hasLookAlike(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        guard head.section.hasUnderscore else { return false }
        for field in head.section.fields {
            guard let name = normalizedIfUnderscored(bytes, field.name) else { continue }
            if name == Array("authorization".utf8) {
                if !route.keepsAuthorization { return true }
            } else if route.ownedNames.contains(name), !isOwned(field, bytes) {
                return true
            } else if route.dropsForwarded, FieldKind.isForwarded(name) {
                return true
            }
        }
        return false
    }

    private func normalizedIfUnderscored(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> [UInt8]? {
        var name: [UInt8] = []
        var hasUnderscore = false
        for index in range {
            if bytes[index] == 0x5F { hasUnderscore = true }
            name.append(bytes[index].asciiDashed)
        }
        return hasUnderscore ? name : nil
    }

    /// - Parameter end: The last lines, the empty one included.
    /// - Returns: Whether it was written, whole.
    func write(
        _ head: borrowing RequestHead,
        _ source: ByteBuffer,
        end: [UInt8],
        into out: inout ByteBuffer
    ) -> Bool {
        // What is kept of the head is no longer than it; the rest is ours.
        let own = route.injectedBytes + forwarded.utf8.count + end.count
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
            cursor.write(end)
        }
    }

    /// Room for the words that a writer adds by itself.
    private static let wording = 64

    // MARK: Target

    private func writeTarget(_ head: borrowing RequestHead, _ source: ByteBuffer, _ cursor: inout HeadCursor) {
        let path = head.forwardedPath(match, without: route.prefix)
        if !route.basePath.isEmpty { cursor.write(route.basePath) }
        if head.form == .asterisk, !route.basePath.isEmpty {
            // The server as a whole is not ours to ask; the base path stands for it.
        } else if path.isEmpty {
            let bytes = source.readableBytesUInt8Span
            if route.basePath.isEmpty { cursor.write(head.asksForServer(bytes) && route.query == nil ? 0x2A : 0x2F) }
        } else if head.form == .asterisk, route.query != nil {
            // The asterisk stands alone (RFC 9112 §3.2.4).
            cursor.write(0x2F)
        } else {
            cursor.copy(path)
        }
        guard let injected = route.query else { return cursor.copy(head.query) }
        cursor.write(0x3F)
        for (index, parameter) in keptParameters(head, source, without: injected.name).enumerated() {
            if index > 0 { cursor.write(parameter.separator) }
            cursor.copy(parameter.bytes)
            if parameter.isLast { cursor.write(Self.ampersand) }
        }
        cursor.write(injected.pair)
    }

    private struct Parameter {
        let bytes: Range<Int>
        /// What stands before it.
        let separator: UInt8
        var isLast = false
    }

    /// The client's query parameters but those of the injected name, also where an upstream takes `;` for an end as `&` is.
    ///
    /// The rest stays as it came, separators and empty ones included: it may have a meaning for an upstream that
    /// splits at `&` only.
    private func keptParameters(
        _ head: borrowing RequestHead,
        _ source: ByteBuffer,
        without name: [UInt8]
    ) -> [Parameter] {
        guard head.query.count > 1 else { return [] }
        let bytes = source.readableBytesUInt8Span
        let name = PercentEncoding.decodeLeniently(name.span, 0..<name.count, isForm: true)
        var kept: [Parameter] = []
        var start = head.query.lowerBound + 1
        var separator = Self.ampersand
        for index in start...head.query.upperBound {
            let isEnd = index == head.query.upperBound
            guard isEnd || bytes[index] == Self.ampersand || bytes[index] == Self.semicolon else { continue }
            let isCut = Self.name(bytes, start..<index) == name
            if !isCut { kept.append(Parameter(bytes: start..<index, separator: separator)) }
            start = index + 1
            // Of the two separators around a removed parameter, `&` stays, because all upstreams split there.
            if !isEnd, !isCut || separator == Self.semicolon { separator = bytes[index] }
        }
        guard kept.count > 1 || kept.first?.bytes.isEmpty == false else { return [] }
        kept[kept.count - 1].isLast = true
        return kept
    }

    private static let ampersand: UInt8 = 0x26
    private static let semicolon: UInt8 = 0x3B

    private static func name(_ bytes: borrowing Span<UInt8>, _ parameter: Range<Int>) -> [UInt8] {
        var end = parameter.lowerBound
        while end < parameter.upperBound, bytes[end] != 0x3D { end += 1 }
        return PercentEncoding.decodeLeniently(bytes, parameter.lowerBound..<end, isForm: true)
    }

    // MARK: Fields

    private func writeFields(_ head: borrowing RequestHead, _ source: ByteBuffer, _ cursor: inout HeadCursor) {
        let bytes = source.readableBytesUInt8Span
        // Fields that are kept and follow each other are copied together.
        var runStart = 0
        var runEnd = 0
        for field in head.section.fields {
            if isKept(field, head, bytes) {
                if runEnd == 0 { runStart = Int(field.start) }
                runEnd = Int(field.end)
            } else if runEnd > 0 {
                cursor.copy(runStart..<runEnd)
                runEnd = 0
            }
        }
        if runEnd > 0 { cursor.copy(runStart..<runEnd) }
        if head.wantsUpgrade {
            cursor.write("Connection: Upgrade\r\n")
            for field in head.section.fields where field.kind == .upgrade { cursor.copy(field.line) }
        }
    }

    @inline(__always)
    private func isKept(
        _ field: HeadField,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> Bool {
        switch field.kind {
        case .host: return false
        case .authorization: return route.keepsAuthorization && !stripsAuthorization
        case .contentLength, .transferEncoding: return true
        case .expect: return head.expectsContinue && sendsExpect
        case .forwarded where route.dropsForwarded: return false
        case .cookie where route.dropsCookies: return false
        default:
            if field.kind.isHopByHop { return false }
            if isOwned(field, bytes) { return false }
            for name in head.options.nominated where bytes.equalsLowercased(field.name, name) { return false }
            return true
        }
    }

    @inline(__always)
    private func isOwned(_ field: HeadField, _ bytes: borrowing Span<UInt8>) -> Bool {
        for name in route.ownedNames where bytes.equalsLowercased(field.name, name) { return true }
        return false
    }
}
