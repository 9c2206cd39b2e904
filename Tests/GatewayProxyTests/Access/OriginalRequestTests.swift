import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("The request that an engine asks about", .timeLimit(.minutes(5)))
struct OriginalRequestTests {
    typealias Fault = OriginalRequest.Fault

    private static let nginx = [
        "X-Original-Method: PUT", "X-Original-URI: /box/2.0?a=b", "X-Original-Host: api.example",
    ]
    private static let forwardAuth = [
        "X-Forwarded-Method: PUT", "X-Forwarded-Uri: /box/2.0?a=b", "X-Forwarded-Host: api.example",
    ]

    private static func read(
        _ contract: EnginePlan.Contract,
        _ fields: [String],
        line: String = "GET /ask HTTP/1.1",
        pathPrefix: String = ""
    ) throws -> (text: String, scheme: Origin.Scheme?) {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let head = ([line, "Host: gateway"] + fields + ["", ""]).joined(separator: "\r\n")
        let bytes = Array(head.utf8)
        guard case .head = decoder.decode(bytes.span) else { throw Fault.malformed("the test") }
        var original = OriginalRequest(EnginePlan(name: "edge", contract: contract, pathPrefix: pathPrefix))
        try original.read(decoder.head, bytes.span)
        return (String(decoding: original.bytes, as: UTF8.self), original.scheme)
    }

    @Test func nginxNamesItInFields() throws {
        let fields = Self.nginx + ["Accept: */*", "Authorization: Bearer of-client", "X-Original-Proto: https"]
        let (text, scheme) = try Self.read(.nginx, fields)
        let expected =
            "PUT /box/2.0?a=b HTTP/1.1\r\nHost: api.example\r\nAccept: */*\r\nAuthorization: Bearer of-client\r\n\r\n"
        #expect(text == expected)
        #expect(scheme == .https)
    }

    @Test func namesAreReadInAnyCaseAndNamesOfTheSameLengthAreKept() throws {
        let fields = [
            "x-original-METHOD: PUT", "X-ORIGINAL-URI: /box", "x-Original-hosT: api.example", "x-gW-other: 1",
            "X-Original-Urj: x", "X-Original-Prot0: https", "X-G: y",
        ]
        let (text, scheme) = try Self.read(.nginx, fields)
        let kept = "X-Original-Urj: x\r\nX-Original-Prot0: https\r\nX-G: y\r\n"
        #expect(text == "PUT /box HTTP/1.1\r\nHost: api.example\r\n\(kept)\r\n")
        #expect(scheme == nil)
    }

    @Test func aFieldThatStandsThreeTimesIsRefusedToo() {
        let fields = Self.nginx + ["X-Original-Proto: http", "X-Original-Proto: http", "X-Original-Proto: http"]
        #expect(throws: Fault.duplicate("X-Original-Proto")) { try Self.read(.nginx, fields) }
    }

    @Test(arguments: [("http", Origin.Scheme.http), ("HTTPS", .https), ("wss", .https), ("ws", .http)])
    func forwardAuthNamesItInOthers(_ proto: String, _ scheme: Origin.Scheme) throws {
        let found = try Self.read(.forwardAuth, Self.forwardAuth + ["X-Forwarded-Proto: \(proto)"])
        #expect(found.text == "PUT /box/2.0?a=b HTTP/1.1\r\nHost: api.example\r\n\r\n")
        #expect(found.scheme == scheme)
    }

    @Test func envoySendsItsOwnRequestLine() throws {
        let (text, scheme) = try Self.read(
            .envoy,
            ["X-Original-Method: DELETE", "Content-Length: 0"],
            line: "POST /authz/box/2.0?a=b HTTP/1.1",
            pathPrefix: "/authz"
        )
        #expect(text == "POST /box/2.0?a=b HTTP/1.1\r\nHost: gateway\r\nX-Original-Method: DELETE\r\n\r\n")
        #expect(scheme == nil)
    }

    @Test(arguments: ["GET /other/box HTTP/1.1", "GET /authz HTTP/1.1", "GET /authzbox HTTP/1.1"])
    func aPathWithoutThePrefixIsRefused(_ line: String) {
        #expect(throws: Fault.malformed("the request target (path_prefix)")) {
            try Self.read(.envoy, [], line: line, pathPrefix: "/authz")
        }
    }

    /// Of the engine's own connection, or for the gateway alone.
    @Test(arguments: [
        "X-Gw-Engine-Token: abc", "x-gw-rejected-generation: 1", "X-GW-Generation: 1", "Connection: close",
        "Content-Length: 3", "Transfer-Encoding: chunked", "TE: trailers", "Upgrade: websocket", "Expect: 100-continue",
    ])
    func fieldsOfTheEngineAreLeftOut(_ field: String) throws {
        let (text, _) = try Self.read(.nginx, Self.nginx + [field])
        #expect(text == "PUT /box/2.0?a=b HTTP/1.1\r\nHost: api.example\r\n\r\n")
    }

    @Test func eachFieldOfManyIsTheClientsOrTheEngines() throws {
        let own = (0..<80).map { "X-Own-\($0): \($0)" }
        let fields = Array(own.prefix(70)) + Self.nginx + ["X-Gw-Engine-Token: abc", "TE: trailers"] + own.suffix(10)
        let (text, _) = try Self.read(.nginx, fields)
        #expect(
            text == "PUT /box/2.0?a=b HTTP/1.1\r\nHost: api.example\r\n" + own.map { $0 + "\r\n" }.joined() + "\r\n"
        )
    }

    @Test(arguments: [
        ("X-Original-Method", Fault.missing("X-Original-Method")), ("X-Original-URI", .missing("X-Original-URI")),
        ("X-Original-Host", .missing("X-Original-Host")),
    ])
    func aMissingFieldIsNamed(_ field: String, _ fault: Fault) {
        #expect(throws: fault) { try Self.read(.nginx, Self.nginx.filter { !$0.hasPrefix(field + ":") }) }
        #expect(throws: fault) {
            try Self.read(.nginx, Self.nginx.map { $0.hasPrefix(field + ":") ? "\(field):" : $0 })
        }
        #expect(fault.problem.detail.contains(field))
    }

    @Test(arguments: ["X-Original-Method: GET", "x-original-uri: /other", "X-Original-Host: evil.example"])
    func aFieldThatComesTwiceIsRefused(_ field: String) {
        #expect {
            try Self.read(.nginx, Self.nginx + [field])
        } throws: { error in
            if case .duplicate? = error as? Fault { true } else { false }
        }
    }

    @Test(arguments: [
        ["X-Original-Method: GET /evil", "X-Original-URI: /", "X-Original-Host: a"],
        ["X-Original-Method: GET", "X-Original-URI: box", "X-Original-Host: a"],
        ["X-Original-Method: GET", "X-Original-URI: /a HTTP/1.1", "X-Original-Host: a"],
        ["X-Original-Method: GET", "X-Original-URI: http://evil.example/", "X-Original-Host: a"],
        ["X-Original-Method: GET", "X-Original-URI: /", "X-Original-Host: a", "X-Original-Proto: ftp"],
        ["X-Original-Method: GET", "X-Original-URI: /", "X-Original-Host: a, b"],
    ])
    func aValueThatIsNotValidIsRefused(_ fields: [String]) {
        #expect {
            try Self.read(.nginx, fields)
        } throws: { error in
            if case .malformed? = error as? Fault { true } else { false }
        }
    }

    /// What is left to the decoder of all heads.
    @Test(arguments: [
        ["X-Original-Method: TRACE", "X-Original-URI: /", "X-Original-Host: a"],
        ["X-Original-Method: GET", "X-Original-URI: /a#b", "X-Original-Host: a"],
        ["X-Original-Method: GET", "X-Original-URI: *", "X-Original-Host: a"],
        ["X-Original-Method: GET", "X-Original-URI: /", "X-Original-Host: a/b"],
    ])
    func theDecoderRefusesWhatItRefusesElsewhere(_ fields: [String]) throws {
        let bytes = Array(try Self.read(.nginx, fields).text.utf8)
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        guard case .refused = decoder.decode(bytes.span) else {
            Issue.record("it was read")
            return
        }
    }

    @Test func theMemoryIsUsedAgain() throws {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array("GET /a HTTP/1.1\r\nHost: b\r\n\r\n".utf8)
        guard case .head = decoder.decode(bytes.span) else { return }
        var original = OriginalRequest(EnginePlan(name: "edge", contract: .envoy))
        for _ in 0..<2 { try original.read(decoder.head, bytes.span) }
        #expect(original.bytes == bytes)
    }

    @Test func theRouteThatTheEngineHasChosenIsNoFieldOfTheClient() throws {
        #expect(try Self.read(.nginx, Self.nginx + ["X-Gw-Route: box"]).text == Self.read(.nginx, Self.nginx).text)
        #expect(throws: Fault.duplicate("X-Gw-Route")) {
            try Self.read(.nginx, Self.nginx + ["X-Gw-Route: box", "x-gw-route: other"])
        }
    }
}
