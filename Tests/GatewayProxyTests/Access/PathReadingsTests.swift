import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayProxy

@Suite("Readings of a path", .timeLimit(.minutes(5)))
struct PathReadingsTests {
    private static func allow(_ paths: [String]) throws -> [RoutePlan.Allow] {
        try paths.map { RoutePlan.Allow(methods: ["GET"], path: try #require(PathPattern($0))) }
    }

    /// nil where the request is admitted.
    private func refusal(_ path: String, _ routes: [RoutePlan], host: String = "localhost") -> String? {
        switch AuthorizerFixture(routes).decide("GET \(path) HTTP/1.1\r\nHost: \(host)\r\n\r\n") {
        case .refused(let refusal)?: "\(refusal.problem.kind.rawValue): \(refusal.problem.detail)"
        case nil: "the head cannot be read"
        default: nil
        }
    }

    /// What clients of GitLab, Google Cloud Storage, npm, GitHub and Hugging Face send.
    @Test(arguments: [
        "/r/api/v4/projects/group%2Fproject", "/r/bucket/o/dir%2Ffile.txt", "/r/@scope%2fpkg", "/r/%40scope%2Fpkg",
        "/r/repos/o/r/branches/feature%2Fx", "/r/refs%2Fpr%2F1", "/r/file%2Ename", "/r/a%2F%2Fb", "/r/a%252Fb",
        "/r/a;v=1//b",
        "/r/%2Fb", "/r/what%3F/edit", "/r/c%23", "/r/a%2F", "/r/a%2F.../b", "/r/100%25",
    ])
    func anEncodedSlashIsData(_ path: String) throws {
        for credential in [nil, 0] {
            #expect(refusal(path, [AuthorizerFixture.route("r", credential: credential)]) == nil)
        }
        #expect(
            refusal(String(path.dropFirst(2)), [AuthorizerFixture.route("r", credential: 0)], host: "r.localhost")
                == nil
        )
        let absolute = "https://up.example\(path.dropFirst(2))"
        #expect(refusal(absolute, [AuthorizerFixture.route("r", credential: 0)], host: "up.example") == nil)
    }

    @Test(arguments: [
        "/r/..%2Fb", "/r/a%2F..%2Fb", "/r/a%2F..", "/r/%2E%2E/b", "/r/a/%2e", "/r/.%2e/b", "/r/%252e%252e/b",
        "/r/a%252F..%252Fb",
        "/r/a%2F..;x%2Fb", "/r/..%3Bx/b", "/r/a%252F%2e%2e", "/r/..%3Fx", "/r/a/..%2523", "/r/a%252F..%255Cb",
        "/r/..%20/b", "/r/a/.%20", "/r/a/..%20%20;x/b", "/r/..%2520/b", "/r/a%2F..%20%2Fb",
    ])
    func noReadingHasADotSegment(_ path: String) throws {
        for credential in [nil, 0] {
            let refusal = refusal(path, [AuthorizerFixture.route("r", credential: credential)])
            #expect(refusal == "request-refused: The path has a dot segment (. or ..).")
        }
    }

    @Test(arguments: ["/r/a%5Cb", "/r/a%00", "/r/a%0A", "/r/a%7f", "/r/a%2", "/r/a\\b"])
    func someBytesAreRefusedEverywhere(_ path: String) throws {
        for credential in [nil, 0] {
            #expect(
                refusal(path, [AuthorizerFixture.route("r", credential: credential)])?.hasPrefix("request-refused")
                    == true
            )
        }
    }

    /// A server that decodes, or drops what is empty or a parameter, would see the path of the other route.
    @Test(arguments: [
        "/r/admin%2Fx", "/r%2Fadmin/x", "/r/%61dmin/x", "/r/%2561dmin/x", "/r/admin%252Fx", "/r//admin/x",
        "/r/admin;v=1/x",
        "/r/admin%3Bv/x", "/r/;v/admin/x",
    ])
    func everyReadingFindsTheSameRoute(_ path: String) throws {
        var admin = AuthorizerFixture.route("admin", credential: 1)
        admin.matchPath = "/r/admin"
        let refusal = refusal(path, [AuthorizerFixture.route("r", credential: 0), admin])
        if path.hasPrefix("/r%2F") {
            #expect(refusal?.hasPrefix("no-route") == true)
        } else {
            #expect(
                refusal?.contains("/r/admin") == true && refusal?.contains("same route and rule") == true,
                "\(refusal ?? "")"
            )
        }
    }

    /// Where requests name the upstream itself, the path tells its routes apart.
    @Test(arguments: [("/b%2Fx", true), ("/%62/x", true), ("/b/x", false), ("/a%2Fx", false), ("/bc%2Fx", false)])
    func siblingsOnOneUpstreamAreToldApart(_ path: String, _ isRefused: Bool) throws {
        var sibling = AuthorizerFixture.route("b", credential: 1)
        sibling.upstreamPath = "/b"
        sibling.upstreamMatchPath = "/b"
        let routes = [AuthorizerFixture.route("a", credential: 0), sibling]
        #expect((refusal("http://up.example\(path)", routes, host: "up.example") != nil) == isRefused)
    }

    @Test(arguments: [
        (["/api/v4/projects/**"], "/r/api/v4/projects/group%2Fproject", true),
        (["/api/v4/projects/*"], "/r/api/v4/projects/group%2Fproject", false),
        (["/api/v4/projects/*/issues", "/api/v4/projects/**"], "/r/api/v4/projects/group%2Fproject/issues", false),
        (["/api/v4/projects/group%2Fproject"], "/r/api/v4/projects/group%2Fproject", true),
        (["/files/a%20b"], "/r/files/a%20b", true), (["/files/a%20b/**"], "/r/files/a%20b/c%2Fd", true),
        (["/files/*"], "/r/files/a%20b", true), (["/files/*"], "/r/files/a%2Eb", true),
        (["/public/**"], "/r/public%2Fx", false), (["/**"], "/r/public%2Fx", true), (["/*"], "/r/public%2Fx", false),
        (["/secret/*", "/**"], "/r/secret%2Fx", false), (["/*"], "/r/%2A", true), (["/%2A"], "/r/%2A", true),
        (["/%2A"], "/r/x", false), (["/items/*/public"], "/r/items/5%3F/public", false),
        (["/items/*/public"], "/r/items/5%23/public", false), (["/items/**"], "/r/items/5%3F/public", true),
        (["/wiki/*"], "/r/wiki/what%3F", true), (["/wiki/*"], "/r/wiki/%3Fwhat", false),
    ])
    func everyReadingSelectsTheSameRule(_ paths: [String], _ path: String, _ isAdmitted: Bool) throws {
        let route = AuthorizerFixture.route("r", credential: 0, allow: try Self.allow(paths))
        #expect((refusal(path, [route]) == nil) == isAdmitted)
    }

    @Test func aStarThatDoesNotCoverASlashIsNamed() throws {
        let route = AuthorizerFixture.route("r", allow: try Self.allow(["/projects/*"]))
        let found = refusal("/r/projects/group%2Fproject", [route]) ?? ""
        #expect(found.hasPrefix("request-refused: A server may read the path as /r/projects/group/project"))
        #expect(found.contains("end the rule in **"))
    }

    @Test func aStarIsNotNamedWhereNoSlashIsEncoded() throws {
        let route = AuthorizerFixture.route("r", allow: try Self.allow(["/a/b", "/a/*"]))
        let found = refusal("/r/a/%62", [route]) ?? ""
        #expect(found.hasPrefix("request-refused: A server may read the path as /r/a/b,"))
        #expect(!found.contains("**"))
    }

    /// People write a rule for what they mean, and clients of npm send `/@scope%2fpkg`.
    @Test(arguments: [
        ("/@scope/**", "/r/@scope%2fpkg", true), ("/@scope/pkg", "/r/@scope%2Fpkg", true),
        ("/projects/group/project/**", "/r/projects/group%2Fproject/issues", true),
        ("/@scope%2Fpkg", "/r/@scope%2fpkg", true), ("/@scope/**", "/r/@other%2fpkg", false),
        ("/@scope/*", "/r/@other/pkg", false),
    ])
    func aRuleThatCoversTheDecodedPathIsSaid(_ rule: String, _ path: String, _ isSaid: Bool) throws {
        let route = AuthorizerFixture.route("r", allow: try Self.allow([rule]))
        let found = refusal(path, [route])
        #expect(found?.hasPrefix("route-forbidden: The route r does not allow this method and path.") == true)
        #expect(found?.contains("write each encoded slash as the client does") == isSaid)
    }

    /// With rules, what known servers normalise is refused as it was.
    @Test(arguments: ["/r/a;v", "/r/a//b", "/r/a%25b", "/r/a%3Bb"])
    func rulesAllowNoParameters(_ path: String) throws {
        let route = AuthorizerFixture.route("r", allow: try Self.allow(["/**"]))
        #expect(refusal(path, [route])?.hasPrefix("request-refused") == true)
    }

    @Test func anEndpointIsRecognizedInEveryReading() throws {
        let endpoint = AuthorityEndpoint(try AuthorityURL("https://up.example/oauth2/token"))
        let route = AuthorizerFixture.route("r", credential: 0, endpoints: [endpoint])
        for path in ["/r/oauth2%2Ftoken", "/r/oauth2%252Ftoken", "/r/oauth2//token"] {
            #expect(refusal(path, [route])?.hasPrefix("route-forbidden") == true)
        }
        #expect(refusal("/r/files/oauth2%2Ftoken", [route]) == nil)
    }

    /// To Tomcat and Jetty these are `/oauth2/token`: they cut parameters off before they decode.
    @Test(arguments: [
        "/r/oauth2;a%2Fb/token", "/r/oauth2/token;a%2Fb", "/r/oauth2;%23/token", "/r/oauth2;a%252Fb/token",
        "/r/oauth2%3Ba%252Fb/token", "/r/oau%74h2%3B%23/token", "/r/oauth2;a%2Fb/%74oken",
    ])
    func anEndpointIsRecognizedBehindParameters(_ path: String) throws {
        let endpoint = AuthorityEndpoint(try AuthorityURL("https://up.example/oauth2/token"))
        let route = AuthorizerFixture.route("r", credential: 0, endpoints: [endpoint])
        #expect(refusal(path, [route])?.contains("as /r/oau") == true)
        #expect(refusal("/r/x;a%2Fb/token", [route]) == nil)
    }

    @Test(arguments: ["/r/a;q%2Fz/%62/c", "/r/a;q%2Fz/b/c", "/r/a%3Bq%252Fz/%62/c"])
    func parametersMayBeCutBeforeDecoding(_ path: String) throws {
        var other = AuthorizerFixture.route("other", credential: 1)
        other.matchPath = "/r/a/b"
        let refusal = refusal(path, [AuthorizerFixture.route("r", credential: 0), other])
        #expect(refusal?.contains("the same route and rule") == true, "\(refusal ?? "")")
    }
}
