/// Decodes response heads with the same strictness as request heads: what is broken becomes 502, never bytes to a client.
package struct ResponseHeadDecoder: ~Copyable, Sendable {
    package enum DecodeResult: Sendable {
        case needMore
        case head
        case refused(HeadRefusal)
    }

    package private(set) var head: ResponseHead
    private let maxBytes: Int
    private let maxFields: Int
    private var hasStatusLine = false
    private var scanned = 0

    /// - Parameter isHTTP2: The heads come by HTTP/2, with the memory that holds their fields.
    package init(maxBytes: Int, maxFields: Int, isHTTP2: Bool = false) {
        head = ResponseHead(FieldSection(hasMemory: !isHTTP2))
        self.maxBytes = maxBytes
        self.maxFields = maxFields
        head.isHTTP2 = isHTTP2
    }

    package mutating func reset() {
        hasStatusLine = false
        scanned = 0
    }

    /// - Parameters:
    ///   - bytes: Everything from the first byte of the head on; grows from call to call.
    ///   - answersHead: The request was HEAD, so no body follows whatever the fields say.
    package mutating func decode(_ bytes: borrowing Span<UInt8>, answersHead: Bool) -> DecodeResult {
        if !hasStatusLine {
            if Self.isHTTP2(bytes) { return .refused(.http2Response) }
            switch FieldSection.endOfLine(bytes, from: scanned) {
            case .needMore(let position):
                scanned = position
                return position >= maxBytes ? .refused(.headTooLarge) : .needMore
            case .refused:
                return .refused(.malformedStatusLine)
            case .found(let lineEnd):
                guard parseStatusLine(bytes, lineEnd) else { return .refused(.malformedStatusLine) }
                head.section.begin(at: lineEnd + 2)
                hasStatusLine = true
            }
        }
        switch head.section.read(bytes, maxBytes: maxBytes, maxFields: maxFields) {
        case .needMore: return .needMore
        case .refused(let reason): return .refused(reason)
        case .end(let end):
            head.end = end
            if let reason = interpretFields(bytes, answersHead: answersHead) { return .refused(reason) }
            assert(
                head.statusAndReason.upperBound <= head.end && head.end <= bytes.count,
                "The ranges of the head overlap or exceed the input."
            )
            return .head
        }
    }

    /// A frame of SETTINGS, with which a server of HTTP/2 begins (RFC 9113 section 3.4). No status line has such bytes.
    @inline(__always)
    private static func isHTTP2(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard bytes.count >= HTTP2FrameHeader.size, bytes[0] == 0 else { return false }
        let header = HTTP2FrameHeader(bytes, at: 0)
        return header.type == HTTP2FrameType.settings.rawValue && header.stream == 0 && header.length % 6 == 0
    }

    /// Reads the head of a response that came by HTTP/2 (RFC 9113 section 8.3.2).
    ///
    /// - Parameters:
    ///   - fields: The decoded block. What the head has are ranges of its bytes, up to its end; it is of no other use behind this call.
    ///   - isLast: No content follows the head.
    ///   - webSocketAccept: What answers the key of a client that asked for a WebSocket (RFC 8441). Any 2xx opens it, which for HTTP/1 is
    ///     a 101.
    package mutating func decode(
        _ fields: inout HTTP2FieldTable,
        isLast: Bool,
        answersHead: Bool,
        webSocketAccept: String? = nil
    ) throws(HTTP2Malformation) -> DecodeResult {
        let status = try fields.status()
        if let reason = fields.refusal { return .refused(reason) }
        guard status >= 100 else { return .refused(.malformedStatusLine) }
        head.isHTTP10 = false
        head.status = status
        if let webSocketAccept, status / 100 == 2 {
            fields.switchToWebSocket(accept: webSocketAccept)
            head.status = 101
        } else if isLast, !answersHead, status >= 200, status != 204, status != 304 {
            // Otherwise the content would end with the connection, as HTTP/1 reads it.
            fields.declareEmptyContent()
        }
        let digits = fields.pseudo.status ?? 0..<0
        head.statusAndReason = digits.lowerBound..<digits.upperBound + 2
        head.end = fields.end
        fields.swapSection(&head.section)
        if let reason = interpretFields(fields.bytes.span, answersHead: answersHead) { return .refused(reason) }
        return .head
    }

    /// Call it when the head's fields are no longer needed: their memory goes back to the table that it came from, for the next message.
    @inline(__always)
    package mutating func giveBackFields(to fields: inout HTTP2FieldTable) {
        if !fields.section.hasMemory { fields.swapSection(&head.section) }
    }

    /// `HTTP/1.1 200 OK`; the reason may be empty, and its space missing as some servers have it.
    private mutating func parseStatusLine(_ bytes: borrowing Span<UInt8>, _ lineEnd: Int) -> Bool {
        guard let status = Self.status(bytes, 0..<lineEnd) else { return false }
        head.isHTTP10 = bytes[7] == 0x30
        head.status = status
        head.statusAndReason = 9..<lineEnd + 2
        return true
    }

    /// - Parameter line: Without its end.
    /// - Returns: nil for what is no status line.
    @inline(__always)
    static func status(_ bytes: borrowing Span<UInt8>, _ line: Range<Int>) -> Int? {
        let start = line.lowerBound
        guard line.count >= 12, bytes.equals(start..<start + 7, "HTTP/1."), bytes[start + 8] == 0x20,
            bytes[start + 7] == 0x31 || bytes[start + 7] == 0x30
        else { return nil }
        var status = 0
        for index in start + 9..<start + 12 {
            guard bytes[index].isDigit else { return nil }
            status = status * 10 + Int(bytes[index] - 0x30)
        }
        guard status >= 100, line.count == 12 || bytes[start + 12] == 0x20 else { return nil }
        return status
    }

    private mutating func interpretFields(_ bytes: borrowing Span<UInt8>, answersHead: Bool) -> HeadRefusal? {
        head.options.clear()
        head.upstreamKeepsAlive = false
        var declared = DeclaredFraming()
        head.keepAliveSeconds = nil
        head.hasDate = false
        head.grpcStatus = nil
        head.hasLinks = false
        head.hasCookies = false
        head.hasTransportSecurity = false
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            switch field.kind {
            case .connection: head.options.add(bytes, field.value)
            case .date: head.hasDate = true
            case .grpcStatus: head.grpcStatus = FieldSection.contentLength(bytes, field.value)
            case .uriReference: head.hasLinks = true
            case .setCookie: head.hasCookies = true
            case .strictTransportSecurity: head.hasTransportSecurity = true
            case .keepAlive: head.keepAliveSeconds = Self.keepAliveSeconds(bytes, field.value)
            case .contentLength:
                if let reason = declared.addContentLength(bytes, field) { return reason }
            case .transferEncoding:
                if let reason = declared.addTransferEncoding(bytes, field) { return reason }
            case .other, .accessControl, .altSvc, .authorization, .cookie, .destination, .expect, .forwarded, .host,
                .http2Settings, .origin,
                .proxyAuthenticate, .proxyAuthorization, .proxyConnection, .secFetchSite, .te, .upgrade, .via,
                .wwwAuthenticate, .xRequestID:
                break
            }
        }
        guard !head.options.nominatesTooMany else { return .tooManyNominated }
        if head.hasDate, head.options.nominates("date") { head.hasDate = false }
        if let reason = declared.conflict(isHTTP10: head.isHTTP10) { return reason }
        head.framing = framing(answersHead: answersHead, declared)
        if case .untilClose = head.framing { return nil }
        head.upstreamKeepsAlive = head.options.keepsConnection(isHTTP10: head.isHTTP10)
        return nil
    }

    /// `timeout=5, max=100`; nil when it says nothing that can be read, and never more than a day.
    private static func keepAliveSeconds(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> Int? {
        var start = value.lowerBound
        while start < value.upperBound {
            var end = start
            while end < value.upperBound, bytes[end] != 0x2C { end += 1 }
            let parameter = bytes.trimmed(start..<end)
            let number = parameter.lowerBound + "timeout=".utf8.count
            if number < parameter.upperBound, bytes.equalsLowercased(parameter.lowerBound..<number, "timeout=") {
                return FieldSection.contentLength(bytes, number..<parameter.upperBound).map { min($0, 86_400) }
            }
            start = end + 1
        }
        return nil
    }

    private func framing(answersHead: Bool, _ declared: DeclaredFraming) -> BodyFraming {
        if answersHead || head.status < 200 || head.status == 204 || head.status == 304 { return .none }
        if declared.isChunked { return .chunked }
        guard let contentLength = declared.contentLength else { return .untilClose }
        return contentLength == 0 ? .none : .length(contentLength)
    }
}
