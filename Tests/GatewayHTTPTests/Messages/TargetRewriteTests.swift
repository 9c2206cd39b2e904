import GatewayHTTP
import GatewayTesting
import Testing

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
