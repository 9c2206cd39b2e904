import GatewayTesting
import Testing

@testable import GatewayHTTP

@Suite("Request fields that go upstream", .timeLimit(.minutes(5)))
struct RequestFieldRulesTests {
    private static func rules(
        owned: [String] = [],
        keepsAuthorization: Bool = false,
        dropsCookies: Bool = true,
        dropsForwarded: Bool = true
    ) -> RequestFieldRules {
        RequestFieldRules(
            ownedNames: owned.map { Array($0.utf8) },
            keepsAuthorization: keepsAuthorization,
            dropsCookies: dropsCookies,
            dropsForwarded: dropsForwarded
        )
    }

    /// The lines that are kept, as runs.
    private static func kept(
        _ fields: [String],
        by rules: RequestFieldRules,
        tokenPlaces: ClientTokenPlaces = [],
        content: RequestFieldRules.Content = .awaited,
        trace: TraceFields = .pass,
        line: String = "GET / HTTP/1.1"
    ) -> [[String]]? {
        let options = RequestFieldRules.Options(
            tokenPlaces: tokenPlaces,
            content: content,
            trace: trace
        )
        return HeadText.request(fields, line: line) { head, bytes in
            var (runs, index) = ([[String]](), 0)
            while let run = rules.nextKept(of: head, bytes, options, from: &index) {
                let lines = bytes.string(head.section.lines(run))
                runs.append(lines.split(separator: "\r\n").map(String.init))
            }
            return runs
        }
    }

    @Test(
        arguments: [
            ([], []), (["A: 1"], [["A: 1"]]), (["A: 1", "B:", "C:2"], [["A: 1", "B:", "C:2"]]),
            (["A: 1", "TE: trailers", "B: 2"], [["A: 1"], ["B: 2"]]),
            (["TE: trailers", "Keep-Alive: 5", "A: 1"], [["A: 1"]]), (["A: 1", "Upgrade: x"], [["A: 1"]]),
        ] as [([String], [[String]])]
    )
    func keptFieldsThatFollowEachOtherAreOneRun(_ fields: [String], _ expected: [[String]]) {
        #expect(Self.kept(fields, by: Self.rules()) == expected)
    }

    @Test func aKeyThatProvedTheClientToTheGatewayIsStripped() {
        let fields = ["X-Api-Key: 1", "API-Key: 2", "x-goog-api-key: 3", "x-api-keys: 4"]
        let key = HeadText.request(fields) { head, bytes in ClientTokenPlaces(head.section.fields[2], bytes) }
        #expect(key?.isEmpty == false)
        #expect(Self.kept(fields, by: Self.rules()) == [fields])
        let kept = Self.kept(fields, by: Self.rules(), tokenPlaces: key ?? [])
        #expect(kept == [["X-Api-Key: 1"], ["x-goog-api-key: 3", "x-api-keys: 4"]])
    }

    @Test func traceFieldsAreReplacedAsTheTraceSays() {
        let fields = ["traceparent: x", "A: 1", "TraceState: a=b", "Traceparent: y", "traceparents: z"]
        let rules = Self.rules()
        #expect(Self.kept(fields, by: rules) == [fields])
        #expect(
            Self.kept(fields, by: rules, trace: .replaceParent) == [["A: 1", "TraceState: a=b"], ["traceparents: z"]]
        )
        #expect(Self.kept(fields, by: rules, trace: .replaceAll) == [["A: 1"], ["traceparents: z"]])
        #expect(!rules.ownsTraceParent && Self.rules(owned: ["traceparent"]).ownsTraceParent)
    }

    @Test(arguments: [
        "Connection: keep-alive", "Keep-Alive: timeout=5", "Proxy-Connection: close", "Proxy-Authenticate: Basic",
        "Proxy-Authorization: Basic eDp5", "TE: trailers", "Upgrade: h2c", "Authorization: Bearer x", "Cookie: a=b",
        "Forwarded: for=x", "X-Forwarded-For: x", "X-REAL-IP: x", "X-Api-Key: mine", "x-api-KEY: mine",
    ])
    func theseEndHere(_ field: String) {
        #expect(Self.kept(["A: 1", field], by: Self.rules(owned: ["x-api-key"])) == [["A: 1"]])
    }

    @Test(arguments: [
        "Content-Length: 3", "Accept: */*", "Via: 1.0 x", "Origin: null", "X-Request-Id: 1", "X_Api_Key: mine",
        "X-Api-Keys: mine", "Set-Cookie: a=b", "Date: x",
    ])
    func othersAreForwarded(_ field: String) {
        let line = "POST / HTTP/1.1"
        #expect(Self.kept([field], by: Self.rules(owned: ["x-api-key"]), line: line) == [[field]])
    }

    @Test(arguments: [
        (false, false, false), (false, true, false), (true, false, true),
        // The token of a client of the gateway.
        (true, true, false),
    ])
    func authorizationIsForwardedWhereTheRouteInjectsNoneAndTheGatewayDidNotUseIt(
        _ keeps: Bool,
        _ strips: Bool,
        _ isForwarded: Bool
    ) {
        let rules = Self.rules(keepsAuthorization: keeps)
        let kept = Self.kept(["Authorization: Basic eDp5"], by: rules, tokenPlaces: strips ? .authorization : [])
        #expect(kept == (isForwarded ? [["Authorization: Basic eDp5"]] : []))
    }

    @Test(arguments: [("Cookie: a=b", false, true), ("Cookie2: a=b", false, true), ("Forwarded: for=x", true, false)])
    func aRouteMayForwardCookiesAndWhereTheRequestCameFrom(_ field: String, _ cookies: Bool, _ forwarded: Bool) {
        #expect(Self.kept([field], by: Self.rules(dropsCookies: cookies, dropsForwarded: forwarded)) == [[field]])
        #expect(Self.kept([field], by: Self.rules()) == [])
    }

    @Test(arguments: [RequestFieldRules.Content.awaited, .begun, .collected])
    func expectIsForwardedAsLongAsContentIsYetToCome(_ content: RequestFieldRules.Content) {
        let fields = ["Content-Length: 3", "Expect: 100-continue"]
        let kept = Self.kept(fields, by: Self.rules(), content: content, line: "PUT / HTTP/1.1")
        #expect(kept == [content == .awaited ? fields : ["Content-Length: 3"]])
    }

    @Test(arguments: [(RequestFieldRules.Content.awaited, true), (.begun, true), (.collected, false)])
    func chunksGoWhereTheLengthIsKnown(_ content: RequestFieldRules.Content, _ areKept: Bool) {
        let fields = ["A: 1", "Transfer-Encoding: chunked"]
        let kept = Self.kept(fields, by: Self.rules(), content: content, line: "PUT / HTTP/1.1")
        #expect(kept == [areKept ? fields : ["A: 1"]])
    }

    @Test func whatConnectionNamesEndsHere() {
        let fields = ["X-Hop: 1", "Connection: close, x-HOP, x-two", "A: 1", "X-Two: 2", "X-Hops: 3"]
        #expect(Self.kept(fields, by: Self.rules()) == [["A: 1"], ["X-Hops: 3"]])
    }

    // MARK: Look-alikes

    private static func hasLookAlike(_ field: String, for rules: RequestFieldRules) -> Bool? {
        HeadText.request(["A: 1", field]) { rules.hasLookAlike($0, $1) }
    }

    @Test(arguments: [
        ("X_Api_Key: x", true), ("x-api_key: x", true), ("X_API-KEY: x", true), ("Authorization_: x", false),
        // Dropped, or forwarded as what they are.
        ("X-Api-Key: x", false), ("X_Other: x", false), ("X-Value: a_b", false), ("X_Api_Keys: x", false),
        ("X_Forwarded_For: x", true), ("X_Real-IP: x", true), ("X-Forwarded-For: x", false),
        // The route sets this one with its underscore.
        ("As_User: x", false), ("AS_USER: x", false),
    ])
    func aNameThatCanBeReadAsOneOfTheRoutesIsALookAlike(_ field: String, _ isOne: Bool) {
        let rules = Self.rules(owned: ["x-api-key", "as-user", "as_user"])
        #expect(Self.hasLookAlike(field, for: rules) == isOne)
    }

    @Test(arguments: [true, false])
    func whereTheClientsOwnAreForwardedTheyHaveNoLookAlikes(_ keeps: Bool) {
        let rules = Self.rules(owned: ["authorization-x"], keepsAuthorization: keeps, dropsForwarded: !keeps)
        #expect(Self.hasLookAlike("X_Forwarded_For: x", for: rules) == !keeps)
        #expect(Self.hasLookAlike("Authorization_X: x", for: rules) == true)
    }
}

@Suite("API keys in the query", .timeLimit(.minutes(1)))
struct APIKeyQueryTests {
    /// What is left of the query without the parameters with these names, and without the one that the route injects.
    private static func left(_ query: String, without names: [String]) -> [String?] {
        let line = "GET /a\(query) HTTP/1.1"
        return HeadText.request(line: line) { head, bytes in
            let keys = names.reduce(into: ClientTokenPlaces()) { keys, name in
                let bytes = Array(name.utf8)
                keys.formUnion(ClientTokenPlaces(parameter: bytes.indices, bytes.span))
            }
            let injected = Array("token".utf8)
            return [
                String(decoding: TargetRewrite.query(of: head, bytes, without: keys), as: UTF8.self),
                String(decoding: TargetRewrite.keptQuery(of: head, bytes, without: injected, or: keys), as: UTF8.self),
            ]
        } ?? [nil]
    }

    @Test(
        arguments: [
            ("?key=1", ["key"], "", ""), ("?a=b&key=1", ["key"], "?a=b", "a=b&"),
            ("?key=1&a=b&api_key=2&token=3", ["key", "api_key"], "?a=b&token=3", "a=b&"),
            ("?key=1&a=b", [], "?key=1&a=b", "key=1&a=b&"), ("?k%65y=1&key&a", ["key"], "?a", "a&"),
            ("?a;key=1;b", ["key"], "?a;b", "a;b&"), ("", ["key"], "", ""), ("?", ["access_token"], "", ""),
            ("?key=1&access_token=2", ["access_token"], "?key=1", "key=1&"), ("?keys=1", ["key"], "?keys=1", "keys=1&"),
        ] as [(String, [String], String, String)]
    )
    func aParameterThatProvedTheClientEndsHere(_ query: String, _ names: [String], _ left: String, _ before: String) {
        #expect(Self.left(query, without: names) == [left, before])
    }

    @Test func otherParametersAreNotAmongThem() {
        for name in ["keys", "Key", "", "a key", "x-api-key"] {
            let bytes = Array(name.utf8)
            #expect(ClientTokenPlaces(parameter: bytes.indices, bytes.span).isEmpty, "\(name)")
        }
    }
}

@Suite(.timeLimit(.minutes(1)))
struct TakesTrailersTests {
    @Test(arguments: [
        ("TE: trailers", true), ("TE: gzip, Trailers", true), ("TE: \ttrailers ,deflate", true), ("TE: gzip", false),
        ("TE: trailers;q=0", false), ("TE: trailersx", false), ("TE:", false), ("Trailer: trailers", false),
    ])
    func onlyTheWordItselfCounts(_ field: String, _ takes: Bool) {
        #expect(HeadText.request([field]) { $0.takesTrailers($1) } == takes)
    }
}

@Suite("Targets as they go upstream", .timeLimit(.minutes(5)))
struct TargetRewriteTests {
    /// - Parameter prefix: How many bytes of the path stand for the route.
    private static func path(_ line: String, prefix: Int = 0, hasBase: Bool, injectsQuery: Bool) -> String? {
        HeadText.request(line: line) { head, bytes in
            let path = TargetRewrite.path(
                of: head,
                bytes,
                forwarding: head.path.lowerBound + prefix..<head.path.upperBound,
                hasBase: hasBase,
                injectsQuery: injectsQuery
            )
            return switch path {
            case .nothing: ""
            case .root: "/"
            case .server: "*"
            case .copied(let range): bytes.string(range)
            }
        }
    }

    @Test(
        arguments: [
            ("GET /a/b?c HTTP/1.1", 0, ["/a/b", "/a/b", "/a/b", "/a/b"]),
            ("GET /a/b?c HTTP/1.1", 2, ["/b", "/b", "/b", "/b"]),
            // The route's own path: the root, or the base path alone.
            ("GET /a?c HTTP/1.1", 2, ["/", "/", "", ""]), ("OPTIONS /a HTTP/1.1", 2, ["/", "/", "", ""]),
            ("GET http://localhost HTTP/1.1", 0, ["/", "/", "", ""]),
            ("OPTIONS http://localhost HTTP/1.1", 0, ["*", "/", "", ""]),
            ("OPTIONS http://localhost?a HTTP/1.1", 0, ["/", "/", "", ""]),
            ("OPTIONS http://localhost/ HTTP/1.1", 0, ["/", "/", "/", "/"]),
            ("OPTIONS * HTTP/1.1", 0, ["*", "/", "", ""]),
        ] as [(String, Int, [String])]
    )
    func thePathFollowsTheBasePath(_ line: String, _ prefix: Int, _ expected: [String]) {
        let routes = [(false, false), (false, true), (true, false), (true, true)]
        let found = routes.map { Self.path(line, prefix: prefix, hasBase: $0.0, injectsQuery: $0.1) }
        #expect(found == expected)
    }

    private static func query(_ query: String, without name: String = "key") -> String? {
        HeadText.request(line: "GET /\(query) HTTP/1.1") { head, bytes in
            String(decoding: TargetRewrite.keptQuery(of: head, bytes, without: Array(name.utf8)), as: UTF8.self)
        }
    }

    @Test(arguments: [
        ("", ""), ("?", ""), ("?a", "a&"), ("?a=1&b=2", "a=1&b=2&"), ("?a;b", "a;b&"), ("?keys=1&xkey", "keys=1&xkey&"),
        ("?Key=1", "Key=1&"), ("?a=key", "a=key&"), ("?a?key=1", "a?key=1&"),
        // Empty ones.
        ("?&", "&&"), ("?a&&b", "a&&b&"), ("?a&", "a&&"), ("?;", ";&"),
    ])
    func otherParametersStayAsTheyCame(_ query: String, _ expected: String) { #expect(Self.query(query) == expected) }

    @Test(arguments: [
        ("?key", ""), ("?key=1", ""), ("?key=1&key=2", ""), ("?a&key=1", "a&"), ("?key=1&a", "a&"),
        ("?a&key=1&b", "a&b&"), ("?key=1&a;b", "a;b&"), ("?key=1&", ""), ("?&key=1", ""),
        // However it is written.
        ("?%6Bey=1&a", "a&"), ("?%6b%65%79&a", "a&"), ("?ke%79;a", "a&"),
        // Of the two around it the one that everybody takes for an end stays.
        ("?a;key=1&b", "a&b&"), ("?a&key=1;b", "a&b&"), ("?a;key=1;b", "a;b&"), ("?a;key;key&b", "a&b&"),
        ("?key;a", "a&"),
    ])
    func theInjectedParameterIsTakenOut(_ query: String, _ expected: String) { #expect(Self.query(query) == expected) }

    @Test(arguments: [("?a+b=1&c", "c&"), ("?a%20b&c", "c&"), ("?a%2Bb&c", "a%2Bb&c&"), ("?ab&c", "ab&c&")])
    func namesAreComparedAsAFormHasThem(_ query: String, _ expected: String) {
        #expect(Self.query(query, without: "a%20b") == expected)
    }
}
