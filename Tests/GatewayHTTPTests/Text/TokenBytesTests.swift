import Testing

@testable import GatewayHTTP

@Suite(.timeLimit(.minutes(5)))
struct TokenBytesTests {
    /// What RFC 9110 §5.6.2 says, byte by byte.
    private func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }

    @Test func aTokenEndsWhereItsFirstOtherByteStands() {
        for byte in UInt8.min...UInt8.max {
            for length in 1...20 {
                for position in 0..<length {
                    var bytes = Array("X-Api-Key-0123456789".utf8.prefix(length))
                    bytes[position] = byte
                    var hasUnderscore = false
                    let end = bytes.span.endOfToken(in: 0..<length, hasUnderscore: &hasUnderscore)
                    #expect(
                        end == (isToken(byte) ? length : position),
                        "byte \(byte) at \(position) of \(length)"
                    )
                    #expect(
                        hasUnderscore == (byte == UInt8(ascii: "_")),
                        "byte \(byte) at \(position) of \(length)"
                    )
                }
            }
        }
    }

    @Test func nothingBehindTheRangeIsLookedAt() {
        let bytes = Array("Accept-Encoding_:".utf8)
        var hasUnderscore = false
        #expect(bytes.span.endOfToken(in: 3..<15, hasUnderscore: &hasUnderscore) == 15)
        #expect(!hasUnderscore)
    }

    private static let known: [String: FieldKind] = [
        "te": .te, "via": .via, "host": .host, "expect": .expect, "origin": .origin, "upgrade": .upgrade,
        "cookie": .cookie, "cookie2": .cookie, "set-cookie": .setCookie, "set-cookie2": .setCookie,
        "connection": .connection, "keep-alive": .keepAlive, "x-request-id": .xRequestID,
        "authorization": .authorization, "content-length": .contentLength, "sec-fetch-site": .secFetchSite,
        "proxy-connection": .proxyConnection, "www-authenticate": .wwwAuthenticate,
        "transfer-encoding": .transferEncoding, "proxy-authenticate": .proxyAuthenticate,
        "proxy-authorization": .proxyAuthorization, "link": .uriReference, "refresh": .uriReference,
        "location": .uriReference, "content-location": .uriReference,
    ]

    @Test func aKnownNameIsKnownInAnyCaseAndNoOtherIs() {
        for (name, kind) in Self.known {
            for position in name.utf8.indices {
                for byte in UInt8.min...UInt8.max where isToken(byte) {
                    var bytes = Array(name.uppercased().utf8)
                    let index = name.utf8.distance(from: name.startIndex, to: position)
                    bytes[index] = byte
                    let isSame = String(decoding: bytes, as: UTF8.self).lowercased() == name
                    // What stands beside a name is no part of it.
                    let line = Array("xx".utf8) + bytes + Array(": 1\r\n".utf8)
                    let found = FieldKind.classify(line.span, 2..<2 + bytes.count)
                    #expect(found == (isSame ? kind : .other), "\(String(decoding: bytes, as: UTF8.self))")
                }
            }
        }
    }
}
