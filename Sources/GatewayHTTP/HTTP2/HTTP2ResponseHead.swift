/// Writes the fields of an HTTP/2 response as one head of HTTP/1.1 (RFC 9113 section 8.3.2).
///
/// ``ResponseHeadDecoder`` reads that head, so that every rule about responses of HTTP/1 holds for it.
package struct HTTP2ResponseHead: Sendable {
    private var fields = HTTP2FieldLines(behind: Array("HTTP/1.1 000 \r\n".utf8))
    private var status: [UInt8]?
    private var hasFields = false
    private var hasContentLength = false
    /// What answers the key of the client that asked for a WebSocket (RFC 8441).
    private let webSocketAccept: String?
    private var opensWebSocket = false

    /// Where the status stands in the first line.
    private static let placeOfStatus = 9..<12

    /// - Parameter webSocketAccept: The accepted key of a request for a WebSocket. Any 2xx opens it, which for HTTP/1 is a 101.
    package init(webSocketAccept: String? = nil) { self.webSocketAccept = webSocketAccept }

    /// Takes the next field, in the order in which they came.
    ///
    /// - Returns: Why the response is malformed.
    package mutating func add(_ name: String, _ value: String) -> HTTP2Malformation? {
        guard name.utf8.first == 0x3A else {
            hasFields = true
            guard !opensWebSocket || !Self.isOfHandshake(name) else { return nil }
            if name == "content-length" { hasContentLength = true }
            return fields.add(name, value)
        }
        guard name == ":status" else { return .unknownPseudoField }
        guard !hasFields else { return .latePseudoField }
        guard status == nil else { return .duplicatePseudoField }
        let digits = Array(value.utf8)
        guard digits.count == 3, digits.allSatisfy(\.isDigit) else { return .invalidStatus }
        // HTTP/2 has no Upgrade (RFC 9113 section 8.6).
        guard digits != Array("101".utf8) else { return .invalidStatus }
        opensWebSocket = webSocketAccept != nil && digits[0] == 0x32
        status = opensWebSocket ? Array("101".utf8) : digits
        return nil
    }

    /// A tunnel has no content, and the client's key is not the one that the upstream was asked with.
    private static func isOfHandshake(_ name: String) -> Bool {
        name == "content-length" || name == "sec-websocket-accept"
    }

    /// - Parameter isLast: No content follows the head.
    /// - Returns: The whole head.
    package consuming func head(isLast: Bool, answersHead: Bool) throws(HTTP2Malformation) -> [UInt8] {
        guard let status else { throw .missingPseudoField }
        // Otherwise the content would end with the connection, as HTTP/1 reads it.
        let isEmpty = isLast && !answersHead && !hasContentLength && Self.mayHaveContent(status)
        if isEmpty { fields.append("content-length: 0\r\n".utf8) }
        if opensWebSocket, let webSocketAccept {
            let lines = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: \(webSocketAccept)\r\n"
            fields.append(lines.utf8)
        }
        fields.end()
        var head = fields.bytes
        head.replaceSubrange(Self.placeOfStatus, with: status)
        return head
    }

    private static func mayHaveContent(_ status: [UInt8]) -> Bool {
        status[0] != 0x31 && status != Array("204".utf8) && status != Array("304".utf8)
    }
}
