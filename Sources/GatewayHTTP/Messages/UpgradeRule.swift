/// Whether a 101 switches to a protocol that the request offered (RFC 9110 section 7.8).
package enum UpgradeRule {
    package static func isOffered(
        by request: borrowing RequestHead,
        _ requestBytes: borrowing Span<UInt8>,
        _ response: borrowing ResponseHead,
        _ responseBytes: borrowing Span<UInt8>
    ) -> Bool {
        guard request.wantsUpgrade else { return false }
        let offered = protocols(request.fields, requestBytes)
        let chosen = protocols(response.fields, responseBytes)
        return !chosen.isEmpty && chosen.allSatisfy { offered.contains($0) }
    }

    /// Compared as bytes, without regard to the case of ASCII: to text, other bytes can be the same.
    static func protocols(_ fields: [HeadField], _ bytes: borrowing Span<UInt8>) -> [[UInt8]] {
        var protocols: [[UInt8]] = []
        for field in fields where field.kind == .upgrade {
            let value = bytes.array(field.value).map(\.asciiLowercased)
            protocols += value.split(whereSeparator: isSeparator).map(Array.init)
        }
        return protocols
    }

    private static func isSeparator(_ byte: UInt8) -> Bool { byte.isOptionalWhitespace || byte == UInt8(ascii: ",") }
}

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

/// FIPS 180-4. Only for what an RFC computes with it and what is no secret: the answer to a WebSocket's key.
enum SHA1 {
    /// - Returns: 20 bytes.
    static func hash(_ message: [UInt8]) -> [UInt8] {
        var state: [UInt32] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0]
        let padded = padded(message)
        for start in stride(from: 0, to: padded.count, by: 64) { take(padded[start..<start + 64], into: &state) }
        return state.flatMap(bytes)
    }

    private static func padded(_ message: [UInt8]) -> [UInt8] {
        let zeros = (119 - message.count % 64) % 64
        let length = UInt64(message.count) * 8
        return message + [0x80] + [UInt8](repeating: 0, count: zeros) + bytes(UInt32(length >> 32))
            + bytes(UInt32(truncatingIfNeeded: length))
    }

    private static func bytes(_ word: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> $0) }
    }

    private static func take(_ block: ArraySlice<UInt8>, into state: inout [UInt32]) {
        let words = schedule(block)
        var (a, b, c, d, e) = (state[0], state[1], state[2], state[3], state[4])
        for round in 0..<80 {
            let (mixed, constant) = mix(b, c, d, in: round)
            (a, b, c, d, e) = (rotated(a, by: 5) &+ mixed &+ e &+ constant &+ words[round], a, rotated(b, by: 30), c, d)
        }
        for (index, word) in [a, b, c, d, e].enumerated() { state[index] &+= word }
    }

    private static func schedule(_ block: ArraySlice<UInt8>) -> [UInt32] {
        var words = stride(from: block.startIndex, to: block.endIndex, by: 4).map { start in
            block[start..<start + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        }
        for index in 16..<80 {
            words.append(rotated(words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16], by: 1))
        }
        return words
    }

    private static func mix(_ b: UInt32, _ c: UInt32, _ d: UInt32, in round: Int) -> (UInt32, constant: UInt32) {
        switch round {
        case ..<20: (b & c | ~b & d, 0x5A82_7999)
        case ..<40: (b ^ c ^ d, 0x6ED9_EBA1)
        case ..<60: (b & c | b & d | c & d, 0x8F1B_BCDC)
        default: (b ^ c ^ d, 0xCA62_C1D6)
        }
    }

    private static func rotated(_ word: UInt32, by count: UInt32) -> UInt32 { word << count | word >> (32 - count) }
}
