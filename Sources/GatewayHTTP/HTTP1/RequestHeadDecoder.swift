/// Decodes request heads, strictly and resumably (RFC 9112 §3 and §5-§6).
package struct RequestHeadDecoder: ~Copyable, Sendable {
    package enum DecodeResult: Sendable {
        case needMore
        /// ``RequestHeadDecoder/head`` is complete.
        case head
        case refused(HeadRefusal)
    }

    package private(set) var head = RequestHead()
    private let maxBytes: Int
    private let maxFields: Int
    private var phase = Phase.requestLine
    private var lineStart = 0
    private var scanned = 0
    /// One is forgiven, and was taken already.
    private var hasTakenEmptyLine = false

    private enum Phase {
        case requestLine
        case fields
    }

    package init(maxBytes: Int, maxFields: Int) {
        self.maxBytes = maxBytes
        self.maxFields = maxFields
    }

    /// Whether bytes of an unfinished head have been seen. The empty line that may stand before it does not count.
    package var isWithinHead: Bool { phase == .fields || scanned > lineStart }

    /// Makes ready for the next head.
    package mutating func reset() {
        phase = .requestLine
        lineStart = 0
        scanned = 0
        hasTakenEmptyLine = false
        head.isHead = false
    }

    /// As it was made, with the memory of its fields: for a request that has nothing to do with the last one.
    package mutating func renew() {
        reset()
        head.renew()
    }

    /// For bytes that are an empty line and nothing else: the client has not begun a request.
    ///
    /// - Returns: How many bytes to drop; without them the head goes on.
    package mutating func takeEmptyLine() -> Int {
        guard phase == .requestLine, lineStart > 0, scanned == lineStart else { return 0 }
        defer { (lineStart, scanned, hasTakenEmptyLine) = (0, 0, true) }
        return lineStart
    }

    /// - Parameter bytes: Everything from the first byte of the head on; grows from call to call.
    package mutating func decode(_ bytes: borrowing Span<UInt8>) -> DecodeResult {
        if phase == .requestLine {
            switch readRequestLine(bytes) {
            case .head: phase = .fields
            case let result: return result
            }
        }
        switch head.section.read(bytes, maxBytes: maxBytes, maxFields: maxFields) {
        case .needMore: return .needMore
        case .refused(let reason): return .refused(reason)
        case .end(let end):
            head.end = end
            if let reason = interpretFields(bytes, authority: nil) { return .refused(reason) }
            assert(isInOrder(within: bytes.count), "The ranges of the head overlap or exceed the input.")
            return .head
        }
    }

    private func isInOrder(within count: Int) -> Bool {
        head.method.upperBound <= head.path.lowerBound && head.targetAuthority.upperBound <= head.path.lowerBound
            && head.path.upperBound == head.query.lowerBound && head.query.upperBound <= head.end && head.end <= count
    }

    // MARK: Request line

    private mutating func readRequestLine(_ bytes: borrowing Span<UInt8>) -> DecodeResult {
        // One empty line before a request is forgiven (RFC 9112 §2.2).
        if scanned == 0, !hasTakenEmptyLine, bytes.count > 0, bytes[0] == 0x0D {
            guard bytes.count > 1 else { return .needMore }
            guard bytes[1] == 0x0A else { return .refused(.malformedRequestLine) }
            lineStart = 2
            scanned = 2
        }
        // This comes first, because a response to HEAD has no content, even one that refuses this line.
        head.isHead = bytes.count >= lineStart + 5 && bytes.equals(lineStart..<lineStart + 5, "HEAD ")
        switch FieldSection.endOfLine(bytes, from: scanned) {
        case .needMore(let position):
            scanned = position
            if position >= maxBytes { return .refused(.targetTooLong) }
            return startsLikeARequest(bytes, until: position) ? .needMore : .refused(malformation(bytes))
        case .refused:
            return .refused(malformation(bytes))
        case .found(let lineEnd):
            if lineEnd >= maxBytes { return .refused(.targetTooLong) }
            if let reason = parseRequestLine(bytes, lineStart..<lineEnd) {
                return .refused(reason == .malformedRequestLine ? malformation(bytes) : reason)
            }
            head.section.begin(at: lineEnd + 2)
            return .head
        }
    }

    /// Refuses early what cannot become a request: a TLS hello, say, has no line end to wait for.
    private func startsLikeARequest(_ bytes: borrowing Span<UInt8>, until end: Int) -> Bool {
        var index = lineStart
        while index < end, index - lineStart <= 32 {
            if bytes[index] == 0x20 { return index > lineStart }
            guard bytes[index].isTokenByte else { return false }
            index += 1
        }
        return index - lineStart <= 32
    }

    /// What the line is instead of a request line.
    private func malformation(_ bytes: borrowing Span<UInt8>) -> HeadRefusal {
        // The first byte of a record with a TLS handshake (RFC 8446 section 5.1).
        lineStart < bytes.count && bytes[lineStart] == 0x16 ? .tlsHello : .malformedRequestLine
    }

    private mutating func parseRequestLine(_ bytes: borrowing Span<UInt8>, _ line: Range<Int>) -> HeadRefusal? {
        var methodEnd = line.lowerBound
        while methodEnd < line.upperBound, bytes[methodEnd].isTokenByte { methodEnd &+= 1 }
        guard methodEnd > line.lowerBound, methodEnd < line.upperBound, bytes[methodEnd] == 0x20,
            methodEnd - line.lowerBound <= 32
        else { return .malformedRequestLine }
        head.method = line.lowerBound..<methodEnd

        // " HTTP/1.1" is nine bytes.
        let versionStart = line.upperBound - 8
        guard versionStart - 1 > methodEnd, bytes[versionStart - 1] == 0x20 else { return .malformedRequestLine }
        if let reason = parseVersion(bytes, versionStart) { return reason }

        let target = methodEnd + 1..<versionStart - 1
        return checkTarget(bytes, target) ?? refuseMethod(bytes) ?? parseTarget(bytes, target)
    }

    private func checkTarget(_ bytes: borrowing Span<UInt8>, _ target: Range<Int>) -> HeadRefusal? {
        guard !target.isEmpty else { return .malformedRequestLine }
        for index in target where bytes[index] <= 0x20 || bytes[index] >= 0x7F || bytes[index] == 0x23 {
            return bytes[index] == 0x20 ? .malformedRequestLine : .invalidTarget
        }
        return nil
    }

    private mutating func parseVersion(_ bytes: borrowing Span<UInt8>, _ start: Int) -> HeadRefusal? {
        guard bytes.equals(start..<start + 5, "HTTP/"), bytes[start + 5].isDigit, bytes[start + 6] == 0x2E,
            bytes[start + 7].isDigit
        else {
            return .malformedRequestLine
        }
        guard bytes[start + 5] == 0x31, bytes[start + 7] <= 0x31 else { return .versionNotSupported }
        head.isHTTP10 = bytes[start + 7] == 0x30
        return nil
    }

    private mutating func refuseMethod(_ bytes: borrowing Span<UInt8>) -> HeadRefusal? {
        head.isIdempotent = false
        switch head.method.count {
        case 3:
            head.isIdempotent = equals(bytes, "GET") || equals(bytes, "PUT")
            return equals(bytes, "PRI") ? .methodRefused : nil
        case 4:
            head.isIdempotent = head.isHead
        case 5:
            return equals(bytes, "TRACE") ? .methodRefused : nil
        case 6:
            head.isIdempotent = equals(bytes, "DELETE")
        case 7:
            head.isIdempotent = equals(bytes, "OPTIONS")
        default: break
        }
        return nil
    }

    private func equals(_ bytes: borrowing Span<UInt8>, _ method: StaticString) -> Bool {
        bytes.equals(head.method, method)
    }

    private mutating func parseTarget(_ bytes: borrowing Span<UInt8>, _ target: Range<Int>) -> HeadRefusal? {
        head.targetAuthority = 0..<0
        if head.method.count == 7, equals(bytes, "CONNECT") { return parseAuthority(bytes, target) }
        let pathStart: Int
        if bytes[target.lowerBound] == 0x2F {
            head.form = .origin
            pathStart = target.lowerBound
        } else if target.count == 1, bytes[target.lowerBound] == 0x2A {
            guard head.method.count == 7, equals(bytes, "OPTIONS") else { return .invalidTarget }
            head.form = .asterisk
            head.path = target
            head.query = target.upperBound..<target.upperBound
            return nil
        } else {
            guard let authorityStart = absoluteAuthorityStart(bytes, target) else { return .invalidTarget }
            var end = authorityStart
            while end < target.upperBound, bytes[end] != 0x2F, bytes[end] != 0x3F {
                if bytes[end] == 0x40 { return .invalidTarget }
                end += 1
            }
            guard end > authorityStart, bytes.isAuthority(authorityStart..<end) else { return .invalidTarget }
            head.form = .absolute
            head.targetAuthority = authorityStart..<end
            pathStart = end
        }
        var pathEnd = pathStart
        while pathEnd < target.upperBound, bytes[pathEnd] != 0x3F { pathEnd &+= 1 }
        head.path = pathStart..<pathEnd
        head.query = pathEnd..<target.upperBound
        return nil
    }

    /// A name or address, a colon and a port (RFC 9110 §9.3.6).
    private mutating func parseAuthority(_ bytes: borrowing Span<UInt8>, _ target: Range<Int>) -> HeadRefusal? {
        guard bytes.isAuthority(target) else { return .invalidTarget }
        guard let authority = Authority(bytes, target), !authority.host.isEmpty,
            let port = authority.port, (1...65_535).contains(port)
        else {
            return .invalidTarget
        }
        head.form = .authority
        head.targetAuthority = target
        head.path = target.upperBound..<target.upperBound
        head.query = head.path
        return nil
    }

    private func absoluteAuthorityStart(_ bytes: borrowing Span<UInt8>, _ target: Range<Int>) -> Int? {
        for scheme: StaticString in ["http://", "https://"] {
            let length = scheme.utf8CodeUnitCount
            guard target.count > length else { continue }
            if bytes.equalsLowercased(target.lowerBound..<target.lowerBound + length, scheme) {
                return target.lowerBound + length
            }
        }
        return nil
    }
}

/// The other entrance: a request that came by HTTP/2, whose fields are in the form of this head already (RFC 9113 section 8.3.1).
///
/// A request that is refused in HTTP/1 is refused here too. What HTTP/2 has in another form becomes fields: the framing, and the upgrade
/// that an extended CONNECT stands for (RFC 8441).
extension RequestHeadDecoder {
    /// - Parameters:
    ///   - fields: Those of a request, finished. Its bytes up to its end are then those of ``head``; it keeps none of the fields.
    ///   - hasContent: The stream goes on behind the fields.
    ///   - mustBeTLS: The connection stands for an `https` server. A request for another scheme then has an absolute target,
    ///     which tells the authorizer of it.
    ///   - webSocketKey: HTTP/1 wants one of each WebSocket (RFC 6455 section 4.1); HTTP/2 has none.
    /// - Returns: That there is a head, or why it is refused.
    package mutating func decode(
        _ fields: inout HTTP2FieldTable,
        hasContent: Bool,
        mustBeTLS: Bool = false,
        webSocketKey: () -> String = { "" }
    ) throws(HTTP2Malformation) -> DecodeResult {
        reset()
        if let reason = fields.malformation { throw reason }
        // This comes first, because a response to HEAD has no content.
        head.isHead = fields.pseudo.method.map { fields.bytes.span.equals($0, "HEAD") } ?? false
        if let reason = fields.refusal, reason == .targetTooLong || reason == .headTooLarge {
            // What seems to be missing can be what exceeded the limit.
            guard fields.pseudo.method != nil, fields.pseudo.scheme != nil, fields.pseudo.path != nil else {
                return .refused(reason)
            }
        }
        let request = try HTTP2RequestLine(fields, mustBeTLS: mustBeTLS)
        try request.checkFields(fields, hasContent: hasContent)
        if fields.refusal == nil { request.addFields(to: &fields, hasContent: hasContent, webSocketKey) }
        if let reason = readLine(request, &fields) { return .refused(reason) }
        if let authority = request.authority, fields.bytes.span.hasControlByte(authority) {
            return .refused(.invalidFieldValue)
        }
        if let reason = fields.refusal { return .refused(reason) }
        fields.swapSection(&head.section)
        head.end = fields.end
        let bytes = fields.bytes.span
        if let reason = interpretFields(bytes, authority: request.authority) { return .refused(reason) }
        assert(
            max(head.method.upperBound, head.query.upperBound, head.host.upperBound) <= head.end,
            "A range of the head exceeds it."
        )
        return .head
    }

    private mutating func readLine(_ request: HTTP2RequestLine, _ fields: inout HTTP2FieldTable) -> HeadRefusal? {
        head.method = request.asksForWebSocket ? fields.append(text: "GET") : request.method
        let target =
            request.absoluteAuthority.map { authority in
                fields.append(text: "http://", authority, request.isForServer ? 0..<0 : request.target)
            } ?? request.target
        head.isHTTP10 = false
        let bytes = fields.bytes.span
        guard head.method.count <= 32, !bytes.hasControlByte(target) else { return .malformedRequestLine }
        return checkTarget(bytes, target) ?? refuseMethod(bytes) ?? parseTarget(bytes, target)
    }
}

/// The pseudo-header fields of a request, checked as far as HTTP/2 goes.
private struct HTTP2RequestLine {
    /// As it came; that of an extended CONNECT is read as GET.
    let method: Range<Int>
    let target: Range<Int>
    let authority: Range<Int>?
    /// For a target that must be absolute.
    let absoluteAuthority: Range<Int>?
    /// An extended CONNECT (RFC 8441).
    let asksForWebSocket: Bool
    /// The target is `*`.
    let isForServer: Bool
    private let isConnect: Bool

    init(_ fields: borrowing HTTP2FieldTable, mustBeTLS: Bool) throws(HTTP2Malformation) {
        let bytes = fields.bytes.span
        let isConnect = fields.pseudo.method.map { bytes.equals($0, "CONNECT") } ?? false
        asksForWebSocket = isConnect && fields.pseudo.protocolName.map { bytes.equals($0, "websocket") } ?? false
        guard asksForWebSocket || fields.pseudo.protocolName == nil else { throw .unknownProtocol }
        if asksForWebSocket, fields.section.fields.contains(where: { $0.kind == .contentLength }) {
            throw .contentLengthMismatch
        }
        guard let method = fields.pseudo.method else { throw .missingPseudoField }
        guard bytes.isToken(method) else { throw .invalidMethod }
        (self.method, authority, self.isConnect) = (method, fields.pseudo.authority, isConnect && !asksForWebSocket)
        guard !self.isConnect else {
            guard fields.pseudo.scheme == nil, fields.pseudo.path == nil else { throw .unknownPseudoField }
            guard let authority, !authority.isEmpty else { throw .missingPseudoField }
            guard !bytes.hasSpace(authority) else { throw .invalidPath }
            (target, absoluteAuthority, isForServer) = (authority, nil, false)
            return
        }
        guard let scheme = fields.pseudo.scheme, let path = fields.pseudo.path else { throw .missingPseudoField }
        let isClear = bytes.equals(scheme, "http")
        guard isClear || bytes.equals(scheme, "https") else { throw .invalidScheme }
        isForServer = bytes.equals(path, "*")
        let isAllowed =
            isForServer
            ? !asksForWebSocket && bytes.equals(method, "OPTIONS") : !path.isEmpty && bytes[path.lowerBound] == 0x2F
        guard isAllowed, !bytes.hasSpace(path) else { throw .invalidPath }
        target = path
        absoluteAuthority = mustBeTLS && isClear ? authority ?? Self.host(fields) : nil
    }

    private static func host(_ fields: borrowing HTTP2FieldTable) -> Range<Int>? {
        for field in fields.section.fields where field.kind == .host { return field.value }
        return nil
    }

    func checkFields(_ fields: borrowing HTTP2FieldTable, hasContent: Bool) throws(HTTP2Malformation) {
        let bytes = fields.bytes.span
        var length = 0..<0
        for field in fields.section.fields {
            switch field.kind {
            case .contentLength: length = field.value
            case .host: if let authority, !bytes.equalsLowercased(field.value, authority) { throw .hostMismatch }
            default: break
            }
        }
        guard !hasContent, !asksForWebSocket else { return }
        for index in length where bytes[index] != 0x30 { throw .contentLengthMismatch }
    }

    /// Fields that HTTP/2 has in another form.
    func addFields(to fields: inout HTTP2FieldTable, hasContent: Bool, _ webSocketKey: () -> String) {
        guard !asksForWebSocket else {
            fields.append("connection", "Upgrade", .connection)
            fields.append("upgrade", "websocket", .upgrade)
            if !hasWebSocketKey(fields) { fields.append("sec-websocket-key", webSocketKey(), .other) }
            return
        }
        // What follows a CONNECT is no content.
        guard !isConnect, !fields.section.fields.contains(where: { $0.kind == .contentLength }) else { return }
        if hasContent {
            fields.append("transfer-encoding", "chunked", .transferEncoding)
        } else if hasUseForContent(fields.bytes.span) {
            // Some servers answer 411 to a method that has a use for content and says nothing of it (RFC 9110 section 8.6).
            fields.append("content-length", "0", .contentLength)
        }
    }

    private func hasWebSocketKey(_ fields: borrowing HTTP2FieldTable) -> Bool {
        let bytes = fields.bytes.span
        for field in fields.section.fields where bytes.equalsLowercased(field.name, "sec-websocket-key") { return true }
        return false
    }

    private func hasUseForContent(_ bytes: borrowing Span<UInt8>) -> Bool {
        bytes.equals(method, "POST") || bytes.equals(method, "PUT") || bytes.equals(method, "PATCH")
    }
}

extension Span<UInt8> {
    fileprivate func isToken(_ range: Range<Int>) -> Bool {
        for index in range where !self[index].isTokenByte { return false }
        return !range.isEmpty
    }

    /// One that no field may have (RFC 9110 section 5.5).
    fileprivate func hasControlByte(_ range: Range<Int>) -> Bool {
        let part = extracting(range)
        var position = part.firstControlByte(from: 0)
        while position < part.count {
            guard part[position] == 0x09 else { return true }
            position = part.firstControlByte(from: position &+ 1)
        }
        return false
    }

    fileprivate func hasSpace(_ range: Range<Int>) -> Bool {
        for index in range where self[index] == 0x20 { return true }
        return false
    }

    fileprivate func equalsLowercased(_ one: Range<Int>, _ other: Range<Int>) -> Bool {
        guard one.count == other.count else { return false }
        for offset in 0..<one.count
        where self[one.lowerBound &+ offset].asciiLowercased != self[other.lowerBound &+ offset].asciiLowercased {
            return false
        }
        return true
    }
}

/// What the fields of a head mean for the message itself (RFC 9112 section 6, RFC 9110 section 7).
extension RequestHeadDecoder {
    /// - Parameter authority: That of a request of HTTP/2, which its `Host` fields agree with.
    private mutating func interpretFields(_ bytes: borrowing Span<UInt8>, authority: Range<Int>?) -> HeadRefusal? {
        head.host = authority ?? 0..<0
        head.expectsContinue = false
        head.present = []
        head.clientKeepsAlive = false
        head.options.clear()
        var declared = DeclaredFraming()
        var hasHost = authority != nil
        var hasUpgrade = false
        var offersClearTextHTTP2 = false

        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            switch field.kind {
            case .other:
                if Self.mayNameOperation(bytes, field) { head.present.insert(.operation) }
            case .altSvc, .cookie, .date, .forwarded, .grpcStatus, .http2Settings, .keepAlive, .te,
                .proxyConnection, .proxyAuthenticate, .setCookie, .strictTransportSecurity, .uriReference,
                .wwwAuthenticate:
                break
            case .authorization:
                head.present.insert(head.present.contains(.authorization) ? .secondAuthorization : .authorization)
            case .proxyAuthorization: head.present.insert(.proxyAuthorization)
            case .accessControl: head.present.insert(.accessControl)
            case .destination: head.present.insert(.destination)
            case .origin: head.present.insert(.origin)
            case .secFetchSite: head.present.insert(.secFetchSite)
            case .via: head.present.insert(.via)
            case .xRequestID: head.present.insert(.requestID)
            // HTTP/2 in clear text would carry requests past every rule; its offer is dropped, not forwarded.
            case .upgrade:
                hasUpgrade = true
                offersClearTextHTTP2 = offersClearTextHTTP2 || bytes.containsLowercased(field.value, "h2c")
            case .connection: head.options.add(bytes, field.value)
            case .host:
                if authority != nil { continue }
                guard !hasHost else { return .duplicateHost }
                hasHost = true
                head.host = field.value
            case .contentLength:
                if let reason = declared.addContentLength(bytes, field) { return reason }
            case .transferEncoding:
                if let reason = declared.addTransferEncoding(bytes, field) { return reason }
            case .expect:
                guard bytes.equalsLowercased(field.value, "100-continue") else { return .invalidExpectation }
                // HTTP/1.0 has no such expectation (RFC 9110 §10.1.1).
                head.expectsContinue = !head.isHTTP10
            }
        }

        head.clientKeepsAlive = head.options.keepsConnection(isHTTP10: head.isHTTP10)
        if let reason = declared.conflict(isHTTP10: head.isHTTP10) { return reason }
        if head.section.hasFramingLookAlike(bytes) { return .framingLookAlike }
        head.framing =
            declared.isChunked ? .chunked : declared.contentLength.map { $0 == 0 ? .none : .length($0) } ?? .none
        head.wantsUpgrade = hasUpgrade && !offersClearTextHTTP2 && head.options.upgrade && !head.isHTTP10
        if !head.options.nominated.isEmpty, let reason = refuseNominations() { return reason }
        if head.form == .authority, head.framing != .none { return .connectWithContent }
        return checkHost(bytes, hasHost: hasHost)
    }

    /// Whether a field has the length and the first letter of one of those that ask for another method or path.
    @inline(__always)
    private static func mayNameOperation(_ bytes: borrowing Span<UInt8>, _ field: HeadField) -> Bool {
        switch field.nameEnd &- field.start {
        // X-HTTP-Method, X-Rewrite-URL; X-Original-URL; X-Method-Override; X-HTTP-Method-Override.
        case 13, 14, 17, 22: bytes[Int(field.start)] | 0x20 == 0x78
        default: false
        }
    }

    /// A client that lists a framing field, Host, Expect or Authorization in `Connection` wants the upstream to see another
    /// message than the one we judged.
    private func refuseNominations() -> HeadRefusal? {
        // Each is compared with each field.
        if head.options.nominatesTooMany { return .tooManyNominated }
        for name in head.options.nominated {
            let kind = FieldKind.classify(name.span, 0..<name.count)
            if kind.cannotBeNominated { return .frameNominated }
        }
        return nil
    }

    /// Some clients leave the port of a CONNECT out of its Host.
    private func isTargetWithoutPort(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard head.form == .authority, head.host.count < head.targetAuthority.count else { return false }
        return bytes[head.targetAuthority.lowerBound + head.host.count] == 0x3A
            && Authority(bytes, head.targetAuthority)?.host.lowerBound == head.targetAuthority.lowerBound
    }

    private mutating func checkHost(_ bytes: borrowing Span<UInt8>, hasHost: Bool) -> HeadRefusal? {
        guard hasHost else { return head.isHTTP10 ? nil : .missingHost }
        if head.host.isEmpty, head.form != .absolute { return .invalidHost }
        guard bytes.isAuthority(head.host) else { return .invalidHost }
        switch head.form {
        case .origin, .asterisk: return nil
        case .absolute:
            // The target names the server, even if Host differs (RFC 9112 section 3.2.2). urllib3, and so boto3, puts the proxy there.
            head.host = head.targetAuthority
            return nil
        case .authority: return isTargetOfConnect(bytes) ? nil : .hostMismatch
        }
    }

    /// Whether the `Host` of a CONNECT is its target, with or without the port.
    private func isTargetOfConnect(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard head.host.count == head.targetAuthority.count || isTargetWithoutPort(bytes) else { return false }
        for offset in 0..<head.host.count {
            let (a, b) = (bytes[head.host.lowerBound + offset], bytes[head.targetAuthority.lowerBound + offset])
            guard a.asciiLowercased == b.asciiLowercased else { return false }
        }
        return true
    }
}
