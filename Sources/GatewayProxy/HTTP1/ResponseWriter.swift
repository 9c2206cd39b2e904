import GatewayHTTP
import NIOCore

/// Writes the head that goes to the client: the upstream's, without what belonged to the upstream's connection.
final class ResponseWriter: Sendable {
    enum Persistence {
        /// The default of the client's version; nothing to say.
        case implied
        case close
        /// HTTP/1.0 clients that asked for it.
        case keepAlive
        /// A 101: the upstream's own `Connection: Upgrade`.
        case upgrade
    }

    enum Outcome {
        case tooLong
        case written
        /// At least one `Set-Cookie` was dropped.
        case writtenWithoutCookies
    }

    /// Our `Via` and, where it is sent, `Proxy-Status` up to the status (RFC 9209).
    private let tail: ViaLines
    private let sendsProxyStatus: Bool
    /// `Gateway-Request-Id: `, or another name for it; empty sends none.
    private let requestIDStart: [UInt8]
    /// The same as fields of HTTP/2, the last without its value.
    private let encodedTail: ViaFields
    private let encodedRequestID: [UInt8]

    /// - Parameters:
    ///   - proxyStatus: ``ProxyStatus/member(nextHop:)``; nil sends none.
    ///   - requestIDHeader: The field that names the request; nil sends none.
    init(viaName: String, proxyStatus: String?, requestIDHeader: String?) {
        sendsProxyStatus = proxyStatus != nil
        requestIDStart = requestIDHeader.map { Array("\($0): ".utf8) } ?? []
        encodedTail = ViaFields(name: viaName, then: proxyStatus.map { "\($0); received-status=" })
        encodedRequestID = requestIDHeader.map { HTTP2FrameWriter.fieldWithoutValue(Array($0.utf8)) } ?? []
        tail = ViaLines(name: viaName, then: proxyStatus.map { "Proxy-Status: \($0); received-status=" } ?? "")
    }

    /// - Parameters:
    ///   - knowsChunks: The client knows chunks. It gets them where the upstream ends the content by closing the
    ///     connection, so that cut content does not look complete (RFC 9112 §8), and where its length changes.
    ///   - date: When it was received: goes to the client where the upstream has no clock (RFC 9110 §6.6.1).
    ///   - dateLine: The same as the line that is sent, which somebody has at hand.
    func write(
        _ head: borrowing ResponseHead,
        _ source: ByteBuffer,
        id: RequestID,
        persistence: Persistence,
        knowsChunks: Bool,
        rules: ResponseFieldRules,
        options: ResponseFieldRules.Options,
        tokenNote: String?,
        date: UnixTime?,
        dateLine: [UInt8]? = nil,
        into out: inout ByteBuffer
    ) -> Outcome {
        let own =
            tail.count + requestIDStart.count + (tokenNote?.utf8.count ?? 0) + options.room + options.crossOrigin.count
            + (options.exposesFields
                ? head.end + Self.exposing.utf8CodeUnitCount + Self.ownFields.count + requestIDStart.count
                    + ": \r\n".utf8.count : 0)
        var dropsCookies = false
        let isWritten = HeadCursor.append(to: &out, from: source, capacity: head.end + own + Self.wording) { cursor in
            cursor.write("HTTP/1.1 ")
            writeStatus(head, &cursor)
            dropsCookies = writeFields(head, source, knowsChunks: knowsChunks, rules, options, &cursor)
            if dropsCookies {
                cursor.write("Gateway-Note: ")
                cursor.write(text: CookiePolicy.note)
                cursor.write("\r\n")
            }
            let isUntilClose = if case .untilClose = head.framing { true } else { options.changesLength }
            if knowsChunks, isUntilClose { cursor.write("Transfer-Encoding: chunked\r\n") }
            if !head.isInformational || head.status == 101 {
                cursor.write(tail.line(isHTTP10: head.isHTTP10, isHTTP2: head.isHTTP2))
                if sendsProxyStatus {
                    cursor.copy(head.statusAndReason.lowerBound..<head.statusAndReason.lowerBound + 3)
                    cursor.write("\r\n")
                }
                if !requestIDStart.isEmpty {
                    cursor.write(requestIDStart)
                    cursor.write(id)
                    cursor.write("\r\n")
                }
                if !options.crossOrigin.isEmpty { cursor.write(options.crossOrigin) }
                if options.exposesFields {
                    cursor.write(Self.exposing)
                    cursor.write(": ")
                    cursor.write(exposedFields(head, source.readableBytesUInt8Span, knowsChunks: knowsChunks, rules))
                    cursor.write("\r\n")
                }
            }
            if let dateLine {
                cursor.write(dateLine)
            } else if let date {
                cursor.write("Date: ")
                cursor.write(text: date.httpDate)
                cursor.write("\r\n")
            }
            if let tokenNote {
                cursor.write("Gateway-Token: ")
                cursor.write(text: tokenNote)
                cursor.write("\r\n")
            }
            switch persistence {
            case .implied: break
            case .close: cursor.write("Connection: close\r\n")
            case .keepAlive: cursor.write("Connection: keep-alive\r\n")
            case .upgrade: writeUpgrade(head, &cursor)
            }
            // It must say what to upgrade to (RFC 9110 §15.5.22), and that this is for the next hop.
            if head.status == 426, head.options.upgrade { writeUpgrade(head, &cursor) }
            cursor.write("\r\n")
        }
        return isWritten ? dropsCookies ? .writtenWithoutCookies : .written : .tooLong
    }

    private func writeUpgrade(_ head: borrowing ResponseHead, _ cursor: inout HeadCursor) {
        cursor.write("Connection: Upgrade\r\n")
        for field in head.section.fields where field.kind == .upgrade { cursor.copy(field.line) }
    }

    private static let exposing: StaticString = "Access-Control-Expose-Headers"
    private static let ownFields = Array("Gateway-Token, Gateway-Note, Proxy-Status".utf8)

    /// The names of the fields that a page may read: the gateway's own, then those of the upstream.
    ///
    /// A star would name no field where the page's requests carry cookies, and never `Authorization`.
    private func exposedFields(
        _ head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        knowsChunks: Bool,
        _ rules: ResponseFieldRules
    ) -> [UInt8] {
        var names = Self.ownFields
        names.reserveCapacity(names.count + requestIDStart.count + head.end)
        if !requestIDStart.isEmpty {
            names += ", ".utf8
            names += requestIDStart.dropLast(": ".utf8.count)
        }
        var index = 0
        while let piece = rules.next(of: head, bytes, knowsChunks: knowsChunks, from: &index) {
            let run: Range<Int> =
                switch piece {
                case .kept(let kept): kept
                case .rewritten, .droppedCookie: index - 1..<index
                }
            for field in head.section.fields[run] where field.kind != .setCookie {
                names += ", ".utf8
                for place in field.name { names.append(bytes[place]) }
            }
        }
        return names
    }

    /// Room for the words that a writer adds by itself.
    private static let wording = 224

    @inline(__always)
    private func writeStatus(_ head: borrowing ResponseHead, _ cursor: inout HeadCursor) {
        let line = head.statusAndReason
        guard head.isHTTP2 || line.count == "200\r\n".utf8.count else { return cursor.copy(line) }
        // The space is due even where no reason follows (RFC 9112 §4).
        cursor.copy(line.lowerBound..<line.lowerBound + 3)
        cursor.write(" ")
        // Some clients show it, and nothing else of the status.
        if head.isHTTP2 { cursor.write(ReasonPhrase.of(head.status)) }
        cursor.write("\r\n")
    }

    /// - Returns: Whether a cookie was dropped.
    private func writeFields(
        _ head: borrowing ResponseHead,
        _ source: ByteBuffer,
        knowsChunks: Bool,
        _ rules: ResponseFieldRules,
        _ options: ResponseFieldRules.Options,
        _ cursor: inout HeadCursor
    ) -> Bool {
        let bytes = source.readableBytesUInt8Span
        var dropsCookies = false
        var index = 0
        while let piece = rules.next(
            of: head,
            bytes,
            knowsChunks: knowsChunks,
            links: options.links,
            keepsTransportSecurity: options.keepsTransportSecurity,
            changesLength: options.changesLength,
            from: &index
        ) {
            switch piece {
            case .kept(let kept): cursor.copy(head.section.lines(kept))
            case .rewritten(let field, let value):
                cursor.copy(field.name)
                cursor.write(": ")
                cursor.write(value)
                cursor.write("\r\n")
            case .droppedCookie: dropsCookies = true
            }
        }
        return dropsCookies
    }
}

/// The same head as fields of HTTP/2.
extension ResponseWriter {
    /// - Parameters:
    ///   - opensWebSocket: A 101, which HTTP/2 does not have (RFC 8441 section 5).
    ///   - dateLine: When it was received, as a line of HTTP/1: goes to the client where the upstream has no clock (RFC 9110 section
    ///     6.6.1).
    /// - Returns: Whether a cookie was dropped.
    func write(
        _ head: borrowing ResponseHead,
        _ source: ByteBuffer,
        id: RequestID,
        opensWebSocket: Bool,
        rules: ResponseFieldRules,
        options: ResponseFieldRules.Options,
        tokenNote: String?,
        dateLine: [UInt8]?,
        into frames: inout HTTP2FrameWriter
    ) -> Bool {
        let bytes = source.readableBytesUInt8Span
        frames.status(opensWebSocket ? 200 : head.status)
        let dropsCookies = writeFields(head, bytes, opensWebSocket: opensWebSocket, rules, options, &frames)
        if dropsCookies { frames.field(named: "gateway-note", CookiePolicy.note) }
        if !head.isInformational || head.status == 101 {
            frames.value(encodedTail.fields(isHTTP10: head.isHTTP10, isHTTP2: head.isHTTP2))
            if sendsProxyStatus {
                frames.value(bytes, head.statusAndReason.lowerBound..<head.statusAndReason.lowerBound + 3)
            }
            if !requestIDStart.isEmpty {
                frames.value(encodedRequestID)
                frames.value(id)
            }
            if !options.crossOrigin.isEmpty { frames.fields(options.crossOrigin.span) }
            if options.exposesFields {
                // As in HTTP/1: pages see the same.
                let names = exposedFields(head, bytes, knowsChunks: true, rules)
                frames.field(Self.exposing, valueLength: names.count)
                frames.value(names.span)
            }
        }
        if let dateLine {
            frames.field("date", valueLength: dateLine.count - "Date: \r\n".utf8.count)
            frames.value(dateLine.span, "Date: ".utf8.count..<dateLine.count - "\r\n".utf8.count)
        }
        if let tokenNote { frames.field(named: "gateway-token", tokenNote) }
        return dropsCookies
    }

    private func writeFields(
        _ head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        opensWebSocket: Bool,
        _ rules: ResponseFieldRules,
        _ options: ResponseFieldRules.Options,
        _ frames: inout HTTP2FrameWriter
    ) -> Bool {
        var dropsCookies = false
        var index = 0
        while let piece = rules.next(
            of: head,
            bytes,
            knowsChunks: false,
            links: options.links,
            keepsTransportSecurity: options.keepsTransportSecurity,
            changesLength: options.changesLength,
            from: &index
        ) {
            switch piece {
            case .kept(let kept):
                for place in kept {
                    let field = head.section.fields[place]
                    // The client gave no key that it could answer.
                    let isOfHandshake = opensWebSocket && bytes.equalsLowercased(field.name, "sec-websocket-accept")
                    if !field.kind.isForbiddenInHTTP2, !isOfHandshake { frames.field(bytes, field) }
                }
            case .rewritten(let field, let value):
                frames.field(bytes, name: field.name, valueLength: value.count, isSecret: field.kind == .setCookie)
                frames.value(value.span)
            case .droppedCookie: dropsCookies = true
            }
        }
        return dropsCookies
    }

}

/// Our line in `Via`, which names the version that the message came in (RFC 9110 §7.6.3), and what always follows it.
struct ViaLines: Sendable {
    private let http11: [UInt8]
    private let http10: [UInt8]
    private let http2: [UInt8]

    /// - Parameter field: `Via`, or what stands in its place.
    init(_ field: String = "Via", name: String, then rest: String) {
        http11 = Array("\(field): 1.1 \(name)\r\n\(rest)".utf8)
        http10 = Array("\(field): 1.0 \(name)\r\n\(rest)".utf8)
        http2 = Array("\(field): 2.0 \(name)\r\n\(rest)".utf8)
    }

    var count: Int { http11.count }

    @inline(__always)
    func line(isHTTP10: Bool, isHTTP2: Bool = false) -> [UInt8] { isHTTP10 ? http10 : isHTTP2 ? http2 : http11 }
}

/// The same as fields of HTTP/2, encoded once.
private struct ViaFields: Sendable {
    private let http11: [UInt8]
    private let http10: [UInt8]
    private let http2: [UInt8]

    /// - Parameter status: `Proxy-Status`, whose last three bytes follow; nil sends none.
    init(name: String, then status: String?) {
        http11 = Self.encoded("1.1 \(name)", status)
        http10 = Self.encoded("1.0 \(name)", status)
        http2 = Self.encoded("2.0 \(name)", status)
    }

    private static func encoded(_ via: String, _ status: String?) -> [UInt8] {
        let (via, status) = (Array(via.utf8), status.map { Array($0.utf8) })
        let room = HTTP2FrameWriter.room(for: 32, via.count + (status?.count ?? 0)) * 2
        return HTTP2FrameWriter.encoded(room: room) { frames in
            frames.field("via", valueLength: via.count)
            frames.value(via)
            guard let status else { return }
            frames.field("proxy-status", valueLength: status.count + 3)
            frames.value(status)
        }
    }

    @inline(__always)
    func fields(isHTTP10: Bool, isHTTP2: Bool) -> [UInt8] { isHTTP10 ? http10 : isHTTP2 ? http2 : http11 }
}

/// An answer that the gateway gives by itself, as the bytes of HTTP/1.
struct ProblemResponse {
    let answer: ProblemAnswer
    let closes: Bool

    func write(at time: UnixTime, into out: inout ByteBuffer) {
        let reasonPhrase = answer.reasonPhrase ?? "\(ReasonPhrase.of(answer.status))"
        var head = "HTTP/1.1 \(answer.status) \(reasonPhrase)\r\nDate: \(time.httpDate)\r\n"
        for field in answer.fields { head += "\(field.name): \(field.value)\r\n" }
        head += closes ? "Connection: close\r\n\r\n" : "\r\n"
        out.writeString(head)
        out.writeBytes(answer.body)
    }
}

/// What HTTP/1 has behind a status (RFC 9110 section 15, and the registry of IANA). HTTP/2 has none.
///
/// The table of NIOHTTP1 has the older names of 413 and 422.
enum ReasonPhrase {
    /// Empty for a status that is not registered.
    static func of(_ status: Int) -> StaticString {
        switch status {
        case 100: "Continue"
        case 101: "Switching Protocols"
        case 103: "Early Hints"
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 203: "Non-Authoritative Information"
        case 204: "No Content"
        case 205: "Reset Content"
        case 206: "Partial Content"
        case 207: "Multi-Status"
        case 208: "Already Reported"
        case 300: "Multiple Choices"
        case 301: "Moved Permanently"
        case 302: "Found"
        case 303: "See Other"
        case 304: "Not Modified"
        case 307: "Temporary Redirect"
        case 308: "Permanent Redirect"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 402: "Payment Required"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 407: "Proxy Authentication Required"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 411: "Length Required"
        case 412: "Precondition Failed"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 415: "Unsupported Media Type"
        case 416: "Range Not Satisfiable"
        case 417: "Expectation Failed"
        case 421: "Misdirected Request"
        case 422: "Unprocessable Content"
        case 423: "Locked"
        case 424: "Failed Dependency"
        case 425: "Too Early"
        case 426: "Upgrade Required"
        case 428: "Precondition Required"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 451: "Unavailable For Legal Reasons"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        case 505: "HTTP Version Not Supported"
        case 507: "Insufficient Storage"
        case 511: "Network Authentication Required"
        default: ""
        }
    }
}
