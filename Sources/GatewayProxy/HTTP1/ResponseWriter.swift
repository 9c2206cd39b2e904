import GatewayCore
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

    /// - Parameters:
    ///   - proxyStatus: ``ProxyStatus/member(nextHop:)``; nil sends none.
    ///   - requestIDHeader: The field that names the request; nil sends none.
    init(viaName: String, proxyStatus: String?, requestIDHeader: String?) {
        sendsProxyStatus = proxyStatus != nil
        requestIDStart = requestIDHeader.map { Array("\($0): ".utf8) } ?? []
        tail = ViaLines(name: viaName, then: proxyStatus.map { "Proxy-Status: \($0); received-status=" } ?? "")
    }

    /// - Parameters:
    ///   - knowsChunks: The client knows chunks. It gets them where the upstream ends the content by closing the
    ///     connection, so that cut content does not look complete (RFC 9112 §8).
    ///   - date: When it was received: goes to the client where the upstream has no clock (RFC 9110 §6.6.1).
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
        into out: inout ByteBuffer
    ) -> Outcome {
        let own =
            tail.count + requestIDStart.count + (tokenNote?.utf8.count ?? 0) + options.room + options.crossOrigin.count
            + (options.exposesFields
                ? head.end + Self.exposing.utf8CodeUnitCount + requestIDStart.count + "\r\n".utf8.count : 0)
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
            if knowsChunks, case .untilClose = head.framing { cursor.write("Transfer-Encoding: chunked\r\n") }
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
                if options.exposesFields { writeExposed(head, source, knowsChunks: knowsChunks, rules, &cursor) }
            }
            if let date {
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

    /// The gateway's own fields; those of the upstream follow.
    private static let exposing: StaticString =
        "Access-Control-Expose-Headers: Gateway-Token, Gateway-Note, Proxy-Status"

    /// A star would name no field where the page's requests carry cookies, and never `Authorization`.
    private func writeExposed(
        _ head: borrowing ResponseHead,
        _ source: ByteBuffer,
        knowsChunks: Bool,
        _ rules: ResponseFieldRules,
        _ cursor: inout HeadCursor
    ) {
        cursor.write(Self.exposing)
        if !requestIDStart.isEmpty {
            cursor.write(", ")
            cursor.write(Array(requestIDStart.dropLast(2)))
        }
        let bytes = source.readableBytesUInt8Span
        var index = 0
        while let piece = rules.next(of: head, bytes, knowsChunks: knowsChunks, from: &index) {
            let names: Range<Int> =
                switch piece {
                case .kept(let kept): kept
                case .rewritten, .droppedCookie: index - 1..<index
                }
            for field in head.section.fields[names] where field.kind != .setCookie {
                cursor.write(", ")
                cursor.copy(field.name)
            }
        }
        cursor.write("\r\n")
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
