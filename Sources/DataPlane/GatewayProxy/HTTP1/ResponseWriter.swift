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

    /// - Parameter proxyStatus: ``ProxyStatus/member(nextHop:)``; nil sends none.
    init(viaName: String, proxyStatus: String?) {
        sendsProxyStatus = proxyStatus != nil
        tail = ViaLines(name: viaName, then: proxyStatus.map { "Proxy-Status: \($0); received-status=" } ?? "")
    }

    /// - Parameters:
    ///   - knowsChunks: The client knows chunks. It gets them where the upstream ends the content by closing the
    ///     connection, so that cut content does not look complete (RFC 9112 §8).
    ///   - credentialNames: In lower case, `_` read as `-`: an upstream that echoes its request must not give the credential away.
    ///   - date: When it was received: goes to the client where the upstream has no clock (RFC 9110 §6.6.1).
    func write(
        _ head: borrowing ResponseHead,
        _ source: ByteBuffer,
        persistence: Persistence,
        knowsChunks: Bool,
        credentialNames: [[UInt8]],
        policy: ResponsePolicy,
        tokenNote: String?,
        date: UnixTime?,
        into out: inout ByteBuffer
    ) -> Outcome {
        let own = tail.count + (tokenNote?.utf8.count ?? 0)
        var dropsCookies = false
        let isWritten = HeadCursor.append(to: &out, from: source, capacity: head.end + own + Self.wording) { cursor in
            cursor.write("HTTP/1.1 ")
            writeStatus(head, &cursor)
            dropsCookies = writeFields(head, source, knowsChunks: knowsChunks, credentialNames, policy, &cursor)
            if dropsCookies {
                cursor.write("Gateway-Note: ")
                cursor.write(text: CookiePolicy.note)
                cursor.write("\r\n")
            }
            if head.framing == .untilClose, knowsChunks { cursor.write("Transfer-Encoding: chunked\r\n") }
            if !head.isInformational || head.status == 101 {
                cursor.write(tail.line(isHTTP10: head.isHTTP10))
                if sendsProxyStatus {
                    cursor.copy(head.statusAndReason.lowerBound..<head.statusAndReason.lowerBound + 3)
                    cursor.write("\r\n")
                }
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

    /// Room for the words that a writer adds by itself.
    private static let wording = 192

    @inline(__always)
    private func writeStatus(_ head: borrowing ResponseHead, _ cursor: inout HeadCursor) {
        let line = head.statusAndReason
        guard line.count == "200\r\n".utf8.count else { return cursor.copy(line) }
        // The space is due even where no reason follows (RFC 9112 §4).
        cursor.copy(line.lowerBound..<line.lowerBound + 3)
        cursor.write(" \r\n")
    }

    /// - Returns: Whether a cookie was dropped.
    private func writeFields(
        _ head: borrowing ResponseHead,
        _ source: ByteBuffer,
        knowsChunks: Bool,
        _ credentialNames: [[UInt8]],
        _ policy: ResponsePolicy,
        _ cursor: inout HeadCursor
    ) -> Bool {
        var dropsCookies = false
        // Fields that are kept and follow each other are copied together.
        var runStart = 0
        var runEnd = 0
        for field in head.section.fields {
            var isKept = isKept(field, head, source, knowsChunks: knowsChunks, credentialNames)
            var rewritten: [UInt8]?
            if isKept, policy.concerns(field.kind) {
                switch policy.rewrite(field.kind, source.readableBytesUInt8Span.array(field.value)) {
                case .unchanged: break
                case .dropped:
                    isKept = false
                    if field.kind == .setCookie { dropsCookies = true }
                case .replaced(let value):
                    isKept = false
                    rewritten = value
                }
            }
            if isKept {
                if runEnd == 0 { runStart = Int(field.start) }
                runEnd = Int(field.end)
            } else if runEnd > 0 {
                cursor.copy(runStart..<runEnd)
                runEnd = 0
            }
            if let rewritten {
                cursor.copy(field.name)
                cursor.write(": ")
                cursor.write(rewritten)
                cursor.write("\r\n")
            }
        }
        if runEnd > 0 { cursor.copy(runStart..<runEnd) }
        return dropsCookies
    }

    @inline(__always)
    private func isKept(
        _ field: HeadField,
        _ head: borrowing ResponseHead,
        _ source: ByteBuffer,
        knowsChunks: Bool,
        _ credentialNames: [[UInt8]]
    ) -> Bool {
        switch field.kind {
        case .transferEncoding: return knowsChunks && head.status >= 200 && head.status != 204
        case .contentLength: return head.status >= 200 && head.status != 204
        // An upstream that echoes the request's credential.
        case .authorization: return false
        default:
            if field.kind.isHopByHop { return false }
            guard !head.options.nominated.isEmpty || !credentialNames.isEmpty else { return true }
            let bytes = source.readableBytesUInt8Span
            for name in head.options.nominated where bytes.equalsLowercased(field.name, name) { return false }
            for name in credentialNames where bytes.equalsDashed(field.name, name) { return false }
            return true
        }
    }
}
