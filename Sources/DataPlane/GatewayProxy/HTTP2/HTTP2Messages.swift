import GatewayCore
import NIOCore
import NIOHPACK

/// Translates between the fields of HTTP/2 and the heads of HTTP/1.1 that the rest of the gateway reads and writes.
enum HTTP2Messages {
    /// - Parameter hasContent: The stream goes on behind the fields.
    static func requestHead(
        _ fields: HPACKHeaders,
        hasContent: Bool,
        mustBeTLS: Bool
    ) throws(HTTP2Malformation) -> [UInt8] {
        var head = HTTP2RequestHead()
        for (name, value, _) in fields {
            if let reason = head.add(name, value) { throw reason }
        }
        return try head.head(hasContent: hasContent, mustBeTLS: mustBeTLS)
    }

    /// - Returns: The section with its empty line.
    static func trailers(_ fields: HPACKHeaders) throws(HTTP2Malformation) -> [UInt8] {
        var trailers = HTTP2Trailers()
        for (name, value, _) in fields {
            if let reason = trailers.add(name, value) { throw reason }
        }
        return trailers.section()
    }

    /// - Parameter head: Of a response of HTTP/1, whole and valid.
    static func response(_ head: ByteBuffer) -> HPACKHeaders {
        let bytes = head.readableBytesUInt8Span
        var fields = HPACKHeaders()
        fields.reserveCapacity(16)
        let status = "HTTP/1.1 ".utf8.count
        fields.add(name: ":status", value: bytes.string(status..<status + 3))
        add(bytes, from: HTTP2Fields.start(bytes), to: &fields)
        return fields
    }

    /// - Parameter section: Of HTTP/1, with its empty line.
    /// - Returns: nil where it has no field.
    static func trailers(_ section: ByteBuffer) -> HPACKHeaders? {
        guard section.readableBytes > 2 else { return nil }
        var fields = HPACKHeaders()
        add(section.readableBytesUInt8Span, from: 0, to: &fields)
        return fields.isEmpty ? nil : fields
    }

    private static func add(_ bytes: borrowing Span<UInt8>, from start: Int, to fields: inout HPACKHeaders) {
        HTTP2Fields.read(bytes, from: start) { name, value in
            // Its value must not stay in the table of the connection (RFC 7541 section 7.1.3).
            fields.add(name: name, value: value, indexing: name == "set-cookie" ? .neverIndexed : .indexable)
        }
    }

    static func response(_ answer: ProblemAnswer, at time: UnixTime) -> HPACKHeaders {
        var fields = HPACKHeaders()
        fields.add(name: ":status", value: String(answer.status))
        fields.add(name: "date", value: time.httpDate)
        for field in answer.fields { fields.add(name: field.name.lowercased(), value: field.value) }
        return fields
    }
}
