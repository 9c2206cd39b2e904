import GatewayCore
import NIOCore

/// Writes the head that goes to the client: the upstream's, without what belonged to the upstream's connection.
struct ResponseWriter {
    enum Persistence {
        /// The default of the client's version; nothing to say.
        case implied
        case close
        /// HTTP/1.0 clients that asked for it.
        case keepAlive
        /// A 101: the upstream's own `Connection: Upgrade`.
        case upgrade
    }

    let viaLine: [UInt8]
    /// `Proxy-Status: name; received-status=` (RFC 9209).
    let proxyStatusPrefix: [UInt8]

    func write(
        _ head: borrowing ResponseHead,
        _ source: ByteBuffer,
        persistence: Persistence,
        removesChunking: Bool,
        tokenNote: String?,
        into out: inout ByteBuffer
    ) {
        out.reserveCapacity(minimumWritableBytes: head.end + 192)
        out.writeStaticString("HTTP/1.1 ")
        out.write(head.statusAndReason, of: source)
        var runStart = head.section.fields.first.map { Int($0.start) } ?? 0
        var runEnd = runStart
        for field in head.section.fields {
            if isKept(field, head, source, removesChunking: removesChunking) {
                runEnd = Int(field.end)
            } else {
                out.write(runStart..<runEnd, of: source)
                runStart = Int(field.end)
                runEnd = runStart
            }
        }
        out.write(runStart..<runEnd, of: source)
        if !head.isInformational || head.status == 101 {
            out.writeBytes(viaLine)
            out.writeBytes(proxyStatusPrefix)
            out.write(head.statusAndReason.lowerBound..<head.statusAndReason.lowerBound + 3, of: source)
            out.writeStaticString("\r\n")
        }
        if let tokenNote { out.writeString("Gateway-Token: \(tokenNote)\r\n") }
        switch persistence {
        case .implied: break
        case .close: out.writeStaticString("Connection: close\r\n")
        case .keepAlive: out.writeStaticString("Connection: keep-alive\r\n")
        case .upgrade: writeUpgrade(head, source, into: &out)
        }
        out.writeStaticString("\r\n")
    }

    @inline(__always)
    private func isKept(
        _ field: HeadField,
        _ head: borrowing ResponseHead,
        _ source: ByteBuffer,
        removesChunking: Bool
    ) -> Bool {
        switch field.kind {
        case .transferEncoding: return !removesChunking && head.status >= 200 && head.status != 204
        case .contentLength: return head.status >= 200 && head.status != 204
        // An upstream that echoes the request's credential.
        case .authorization: return false
        default:
            if field.kind.isHopByHop { return false }
            guard !head.options.nominated.isEmpty else { return true }
            let bytes = source.readableBytesUInt8Span
            for name in head.options.nominated where bytes.equalsLowercased(field.name, name) { return false }
            return true
        }
    }

    private func writeUpgrade(_ head: borrowing ResponseHead, _ source: ByteBuffer, into out: inout ByteBuffer) {
        out.writeStaticString("Connection: Upgrade\r\n")
        for field in head.section.fields where field.kind == .upgrade { out.write(field.line, of: source) }
    }
}
