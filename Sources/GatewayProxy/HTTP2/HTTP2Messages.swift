import GatewayHTTP
import NIOCore
import NIOHPACK

/// Translates between the fields of HTTP/2 and the heads of HTTP/1.1 that the rest of the gateway reads and writes.
enum HTTP2Messages {
    /// - Parameter hasContent: The stream goes on behind the fields.
    static func requestHead(
        _ fields: HPACKHeaders,
        hasContent: Bool,
        mustBeTLS: Bool
    ) throws(HTTP2Malformation) -> (bytes: [UInt8], asksForWebSocket: Bool) {
        var head = HTTP2RequestHead()
        for (name, value, _) in fields {
            if let reason = head.add(name, value) { throw reason }
        }
        let asksForWebSocket = head.asksForWebSocket
        return (
            try head.head(hasContent: hasContent, mustBeTLS: mustBeTLS, webSocketKey: webSocketKey), asksForWebSocket
        )
    }

    /// 16 random bytes in Base64 (RFC 6455 section 4.1). The answer to it is the upstream's, and HTTP/2 clients ask for none.
    private static func webSocketKey() -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        // 16 bytes are 21 digits and two bits of the last one.
        let key = (0..<21).map { _ in digits[Int.random(in: 0..<64)] } + [digits[16 * Int.random(in: 0..<4)]]
        return String(decoding: key, as: UTF8.self) + "=="
    }

    /// - Returns: The section with its empty line.
    static func trailers(_ fields: HPACKHeaders) throws(HTTP2Malformation) -> [UInt8] {
        var trailers = HTTP2Trailers()
        for (name, value, _) in fields {
            if let reason = trailers.add(name, value) { throw reason }
        }
        return trailers.section()
    }

    /// - Parameters:
    ///   - head: The head of a response of HTTP/1, whole and valid.
    ///   - isSecret: No value may stay in the table of the connection.
    ///   - opensWebSocket: A 101, which HTTP/2 does not have (RFC 8441 section 5).
    ///   - limit: The payload of a frame, as the client takes it.
    /// - Returns: nil where it is too long for a frame.
    static func response(
        _ head: ByteBuffer,
        isSecret: Bool = false,
        opensWebSocket: Bool = false,
        within limit: Int
    ) -> HPACKHeaders? {
        let bytes = head.readableBytesUInt8Span
        var fields = HPACKHeaders()
        fields.reserveCapacity(16)
        let status = "HTTP/1.1 ".utf8.count
        fields.add(name: ":status", value: opensWebSocket ? "200" : bytes.string(status..<status + 3))
        guard add(bytes, from: HTTP2Fields.start(bytes), to: &fields, isSecret: isSecret, within: limit) else {
            return nil
        }
        if opensWebSocket { fields.remove(name: "sec-websocket-accept") }
        return fields
    }

    /// - Parameter section: A field section of HTTP/1, with its empty line.
    /// - Returns: nil where it has no field, or is too long for a frame.
    static func trailers(_ section: ByteBuffer, within limit: Int) -> HPACKHeaders? {
        guard section.readableBytes > 2 else { return nil }
        var fields = HPACKHeaders()
        guard add(section.readableBytesUInt8Span, from: 0, to: &fields, within: limit) else {
            return statusOfCall(fields, within: limit)
        }
        return fields.isEmpty ? nil : fields
    }

    /// Without its status a finished call of gRPC would be one that failed for no known reason.
    ///
    /// - Parameter trailers: Too long for a frame.
    /// - Returns: nil where they are not of gRPC.
    private static func statusOfCall(_ trailers: HPACKHeaders, within limit: Int) -> HPACKHeaders? {
        guard let status = trailers.first(name: "grpc-status"), status.utf8.count <= 10 else { return nil }
        var kept = HPACKHeaders([("grpc-status", status)])
        if let message = trailers.first(name: "grpc-message") {
            // Percent-encoded ASCII, so a cut may split an escape: clients show that as it is.
            kept.add(name: "grpc-message", value: String(message.unicodeScalars.prefix(limit / 8)))
        }
        return kept
    }

    /// - Returns: Whether all of it fits in a frame.
    private static func add(
        _ bytes: borrowing Span<UInt8>,
        from start: Int,
        to fields: inout HPACKHeaders,
        isSecret: Bool = false,
        within limit: Int
    ) -> Bool {
        var size = HTTP2BlockSize(within: limit)
        HTTP2Fields.read(bytes, from: start) { name, value, isUnique in
            // Its value must not stay in the table of the connection (RFC 7541 section 7.1.3).
            let isSecret = isSecret || name == "set-cookie"
            fields.add(
                name: name,
                value: value,
                indexing: isSecret ? .neverIndexed : isUnique ? .nonIndexable : .indexable
            )
            size.add(name, value)
        }
        return size.fits(fields.texts)
    }

    static func response(_ answer: ProblemAnswer, at time: UnixTime) -> HPACKHeaders {
        var fields = HPACKHeaders()
        fields.add(name: ":status", value: String(answer.status))
        fields.add(name: "date", value: time.httpDate)
        for field in answer.fields { fields.add(name: field.name.lowercased(), value: field.value) }
        return fields
    }
}

extension HPACKHeaders {
    /// All names and values.
    var texts: some Sequence<String> { lazy.flatMap { [$0.name, $0.value] } }
}
