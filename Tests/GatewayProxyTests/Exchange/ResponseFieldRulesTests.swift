import GatewayConfiguration
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayProxy

@Suite("Response fields that go to the client", .timeLimit(.minutes(5)))
struct ResponseFieldRulesTests {
    /// Each piece as text: lines that stand together with `|` between them.
    private static func pieces(
        _ fields: [String],
        status: Int = 200,
        knowsChunks: Bool = true,
        credentialNames: [String] = [],
        requestIDHeader: String? = nil,
        policy: ResponsePolicy = ResponsePolicy(),
        keepsTransportSecurity: Bool = false
    ) -> [String]? {
        let rules = ResponseFieldRules(
            credentialNames: credentialNames.map { Array($0.utf8) },
            requestIDHeader: requestIDHeader,
            policy: policy
        )
        return HeadText.response(status, fields) { head, bytes in
            var (pieces, index) = ([String](), 0)
            while let piece = rules.next(
                of: head,
                bytes,
                knowsChunks: knowsChunks,
                keepsTransportSecurity: keepsTransportSecurity,
                from: &index
            ) {
                switch piece {
                case .kept(let run):
                    let lines = bytes.string(head.section.lines(run))
                    pieces.append(lines.split(separator: "\r\n").joined(separator: "|"))
                case .rewritten(let field, let value):
                    pieces.append("\(bytes.string(field.name)) := \(String(decoding: value, as: UTF8.self))")
                case .droppedCookie: pieces.append("dropped")
                }
            }
            return pieces
        }
    }

    @Test(
        arguments: [
            ([], []), (["A: 1", "B:", "C:2"], ["A: 1|B:|C:2"]), (["A: 1", "TE: x", "B: 2"], ["A: 1", "B: 2"]),
            (["TE: x", "Keep-Alive: 5", "A: 1"], ["A: 1"]), (["A: 1", "Upgrade: x"], ["A: 1"]), (["TE: x"], []),
        ] as [([String], [String])]
    )
    func keptFieldsThatFollowEachOtherAreOnePiece(_ fields: [String], _ expected: [String]) {
        #expect(Self.pieces(fields) == expected)
    }

    @Test(arguments: [
        "Connection: close", "Keep-Alive: timeout=5", "Proxy-Connection: close", "Proxy-Authenticate: Basic",
        "Proxy-Authorization: x", "TE: x", "Upgrade: h2c", "Authorization: Bearer x",
        "HTTP2-Settings: AAMAAABk", "Alt-Svc: h3=\":443\"", "alt-svc: clear",
        // The credential that it was sent.
        "X-Api-Key: s3cret", "x_API_key: s3cret",
    ])
    func theseEndHere(_ field: String) {
        #expect(Self.pieces(["A: 1", field], credentialNames: ["x-api-key"]) == ["A: 1"])
    }

    @Test(arguments: [true, false])
    func transportSecurityIsOfTheUpstreamsHost(isKept: Bool) {
        let field = "Strict-Transport-Security: max-age=63072000; includeSubDomains"
        let pieces = Self.pieces(["A: 1", field], keepsTransportSecurity: isKept)
        #expect(pieces == [isKept ? "A: 1|\(field)" : "A: 1"])
    }

    /// An upstream that is a gateway, too, or wants to be taken for this one.
    @Test func theNameOfTheRequestIsNotTheUpstreams() {
        let own = ["Gateway-Request-Id: 1", "gateway-request-id: 2", "Gateway_Request_ID: 3"]
        let others = ["Request-Id: 4", "X-Request-Id: 5", "Gateway-Request-Ids: 6"]
        let kept = [others.joined(separator: "|")]
        #expect(Self.pieces(own + others, requestIDHeader: "Gateway-Request-Id") == kept)
        #expect(Self.pieces(others, requestIDHeader: "X-REQUEST-ID") == ["Request-Id: 4", "Gateway-Request-Ids: 6"])
        #expect(Self.pieces(own + others) == [(own + others).joined(separator: "|")])
        let rules = ResponseFieldRules(
            credentialNames: [Array("x-key".utf8)],
            requestIDHeader: "Gateway-Request-Id",
            policy: ResponsePolicy()
        )
        let names = rules.namesKeptFromTrailers.map { String(decoding: $0, as: UTF8.self) }
        #expect(names == ["x-key", "gateway-request-id"])
    }

    @Test(arguments: [
        "Cookie: a", "Date: x", "Via: 1.1 x", "Set-Cookie: a=b", "Location: /", "X-Api-Keys: 1", "Host: x",
    ])
    func othersPass(_ field: String) { #expect(Self.pieces([field], credentialNames: ["x-api-key"]) == [field]) }

    @Test(arguments: [
        (200, true, true, true), (200, false, true, false), (404, true, true, true), (304, true, true, true),
        // Without content (RFC 9110 section 8.6, RFC 9112 section 6.1).
        (204, true, false, false), (103, true, false, false), (101, true, false, false),
    ])
    func whatDelimitsContentPassesWhereThereCanBeSome(
        _ status: Int,
        _ knowsChunks: Bool,
        _ passesLength: Bool,
        _ passesChunks: Bool
    ) {
        let length = Self.pieces(["Content-Length: 0"], status: status, knowsChunks: knowsChunks)
        #expect(length == (passesLength ? ["Content-Length: 0"] : []))
        let chunks = Self.pieces(["Transfer-Encoding: chunked"], status: status, knowsChunks: knowsChunks)
        #expect(chunks == (passesChunks ? ["Transfer-Encoding: chunked"] : []))
    }

    @Test func whatConnectionNamesEndsHere() {
        let fields = ["X-Hop: 1", "Connection: close, x-HOP", "A: 1", "Set-Cookie: a", "X-Hops: 3"]
        #expect(Self.pieces(fields) == ["A: 1|Set-Cookie: a|X-Hops: 3"])
    }

    @Test(
        arguments: [
            (["Set-Cookie: a"], ["dropped"]), (["A: 1", "Set-Cookie: a", "B: 2"], ["A: 1", "dropped", "B: 2"]),
            (["Set-Cookie: a", "Set-Cookie: b", "B: 2"], ["dropped", "dropped", "B: 2"]),
            // It would not have passed anyway.
            (["Connection: set-cookie", "Set-Cookie: a", "B: 2"], ["B: 2"]),
        ] as [([String], [String])]
    )
    func aDroppedCookieIsSaid(_ fields: [String], _ expected: [String]) {
        #expect(Self.pieces(fields, policy: ResponsePolicy(cookies: .drop)) == expected)
    }

    @Test(
        arguments: [
            (["A: 1", "WWW-Authenticate: Basic", "B: 2"], ["A: 1", "WWW-Authenticate: Basic", "B: 2"]),
            (["A: 1", "WWW-Authenticate: NTLM", "B: 2"], ["A: 1", "B: 2"]),
            (["A: 1", "www-AUTHENTICATE: NTLM, Basic", "B: 2"], ["A: 1", "www-AUTHENTICATE := Basic", "B: 2"]),
            (["WWW-Authenticate: NTLM", "WWW-Authenticate: NTLM, Basic"], ["WWW-Authenticate := Basic"]),
        ] as [([String], [String])]
    )
    func challengesAreRewritten(_ fields: [String], _ expected: [String]) {
        #expect(Self.pieces(fields, status: 401) == expected)
    }

    @Test func whereTheCredentialIsInTheQueryURIsLoseIt() {
        let parameter = Injection.QueryParameter(name: "key", value: Secret("s3cret"))
        let fields = ["Location: /?key=s3cret&a=1", "A: 1", "Link: </>"]
        let expected = ["Location := /?a=1", "A: 1", "Link: </>"]
        #expect(
            Self.pieces(fields, policy: ResponsePolicy(echo: CredentialLeakFilter(of: Injection(query: parameter))))
                == expected
        )
        #expect(Self.pieces(fields) == [fields.joined(separator: "|")])
    }
}
