import GatewayConfiguration
import Testing

@testable import GatewayApp
@testable import GatewayEvents
@testable import GatewayHTTP
@testable import GatewayProxy
@testable import GatewayTesting
@testable import GatewayTokens

/// Text from clients, upstreams and files is truncated before people see it.
@Suite("Bounds of what is shown", .timeLimit(.minutes(1)))
struct ShownBoundsTests {
    private static func text(_ count: Int) -> String { String(repeating: "a", count: count) }

    @Test func aValueIsCut() {
        let longest = Self.text(ShownText.limit)
        #expect(ShownText.clean(longest) == longest)
        #expect(ShownText.clean(longest + "a") == longest + "…")
    }

    @Test func aTargetIsCut() {
        let longest = "/" + Self.text(ShownText.targetLimit - 1)
        #expect(ShownText.target(longest) == longest)
        #expect(ShownText.target(longest + "a") == longest + "…")
    }

    @Test func aReasonPhraseIsCut() {
        func phrase(_ count: Int) -> String? {
            ProblemAnswer(
                GatewayProblem(.noRoute, Self.text(count)),
                requestID: "1",
                disclosesNames: true,
                sendsProxyStatus: false,
                form: ProblemAnswer.Form(explainsInReasonPhrase: true)
            ).reasonPhrase
        }
        #expect(phrase(ProblemAnswer.maximumPhrase) == Self.text(ProblemAnswer.maximumPhrase))
        #expect(phrase(ProblemAnswer.maximumPhrase + 1) == Self.text(ProblemAnswer.maximumPhrase))
    }

    @Test func aHostIsCut() {
        func host(_ count: Int) -> String? {
            HeadText.request(Array("GET / HTTP/1.1\r\nHost: \(Self.text(count))\r\n\r\n".utf8)) { head, bytes in
                RequestPlace(head, bytes, peer: "192.0.2.1").host
            }
        }
        #expect(host(RequestPlace.maximumHost) == Self.text(RequestPlace.maximumHost))
        #expect(host(RequestPlace.maximumHost + 1) == Self.text(RequestPlace.maximumHost))
    }

    @Test func aPathIsCut() {
        func shown(_ path: String) -> String {
            let bytes = Array(path.utf8)
            return PathTemplate.text(bytes.span, path: bytes.indices)
        }
        // 189 bytes. The word after them makes 199 or 200.
        let folders = String(repeating: "/folder", count: 27)
        let rest = PathTemplate.maximumTextLength - folders.utf8.count - 2
        let longest = folders + "/" + String("oneoneoneone".prefix(rest))
        #expect(shown(longest + "/end") == longest + "/end")
        #expect(shown(longest + "x/end") == longest + "x…")
    }

    @Test func aLongWordOfAPathIsLeftOut() {
        func shown(_ count: Int) -> String {
            let bytes = Array(("/" + String(repeating: "folder", count: 9).prefix(count)).utf8)
            return PathTemplate.text(bytes.span, path: bytes.indices)
        }
        #expect(shown(PathTemplate.maximumWordLength).utf8.count == PathTemplate.maximumWordLength + 1)
        #expect(shown(PathTemplate.maximumWordLength + 1) == "/{id}")
    }

    @Test func anAttributeIsCut() {
        func exported(_ count: Int) -> String {
            OTLPEncoder([TelemetryAttribute("a", Self.text(count))], version: "1").spans([TelemetrySpan]())
        }
        // The opening quotation mark counts too.
        let longest = OTLPEncoder.longestText - 1
        #expect(exported(longest).contains("\"\(Self.text(longest))\""))
        #expect(exported(longest + 1).contains("\"\(Self.text(longest))…\""))
    }

    @Test func theNumberOfNamedGatewaysIsLimited() {
        func sentence(_ count: Int) -> String {
            var following = FleetFollowing(unknown: "")
            following.unknown = nil
            following.unacknowledged = (1...count).map { .init(host: "h\($0)", id: "i", lastSeenSeconds: 1) }
            return following.sentence ?? ""
        }
        let most = FleetFollowing.maximumNames
        #expect(sentence(most).hasSuffix("h\(most) (i, last seen 1 s ago)."))
        #expect(sentence(most + 1).hasSuffix("h\(most) (i, last seen 1 s ago) and 1 more."))
    }

    @Test func theNameOfAnAccountIsCut() {
        let request = WhoAmI(path: "/", shows: JSONPointer("/login"))
        func name(_ count: Int) -> String {
            let body = JSONValue.object(["login": .string(String("a a ".cycled(count)))])
            return WhoAmIAnswer(status: 200, body: body, to: request, hiding: []).text(to: request)
        }
        let longest = WhoAmIAnswer.longestName - 1
        #expect(name(longest).hasSuffix("of \("a a ".cycled(longest))"))
        #expect(name(longest + 2).hasSuffix("of \("a a ".cycled(longest + 1))…"))
    }

    @Test func theReasonOfAFailureIsCut() {
        func text(_ count: Int) -> String { WhoAmIAnswer.failed(Self.text(count)).text(to: WhoAmI(path: "/")) }
        #expect(text(WhoAmIAnswer.longestReason) == "GET /: \(Self.text(WhoAmIAnswer.longestReason))")
        #expect(text(WhoAmIAnswer.longestReason + 1) == text(WhoAmIAnswer.longestReason))
    }
}

extension String {
    /// Repeats the string until it has this many characters.
    fileprivate func cycled(_ count: Int) -> String {
        String(String(repeating: self, count: count / self.count + 1).prefix(count))
    }
}

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
