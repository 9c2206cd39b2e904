/// The handshake of a WebSocket in HTTP/1.1 (RFC 6455 section 4), as far as it differs from that in HTTP/2 (RFC 8441).
package enum WebSocketHandshake {
    /// - Returns: The value of `Sec-WebSocket-Accept` that answers the request. nil where it asks for no WebSocket, or for
    ///   other protocols, too: such a request cannot be said in HTTP/2.
    package static func accept(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> String? {
        guard head.wantsUpgrade, case .none = head.framing, head.methodName(bytes) == "GET",
            UpgradeRule.protocols(head.fields, bytes) == [Array("websocket".utf8)]
        else { return nil }
        let keys = head.fields.filter { bytes.equalsLowercased($0.name, "sec-websocket-key") }
        guard keys.count == 1 else { return nil }
        return accept(key: bytes.array(keys[0].value))
    }

    /// - Returns: nil for a key that is not 16 bytes in Base64.
    private static func accept(key: [UInt8]) -> String? {
        let isKey = key.count == 24 && key[22...].allSatisfy { $0 == 0x3D } && key[..<22].allSatisfy(isDigit)
        return isKey ? Base64.encode(SHA1.hash(key + Array(guid.utf8))) : nil
    }

    private static let guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2B, 0x2F: true
        default: false
        }
    }
}
