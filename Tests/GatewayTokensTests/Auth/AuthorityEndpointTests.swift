import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite(.timeLimit(.minutes(5)))
struct AuthorityEndpointTests {
    private func endpoint(_ url: String) throws -> AuthorityEndpoint { AuthorityEndpoint(try AuthorityURL(url)) }

    private func isMeant(_ endpoint: AuthorityEndpoint, by path: String) -> Bool {
        // Between other bytes, as in a head.
        let bytes = Array("GET \(path) HTTP/1.1".utf8)
        return endpoint.isMeant(by: 4..<4 + path.utf8.count, in: bytes.span)
    }

    @Test(arguments: [
        "/oauth2/token", "/oauth2/token/", "/oauth2//token", "//oauth2/token", "/OAuth2/TOKEN", "/oauth2/%74oken",
        "/oauth2/%2574oken", "/oauth2/%25%37%34oken", "/%6F%61uth2/%54oken", "/oauth2;v=1/token;x=y",
        "/oauth2/;x/token",
        "/oauth2%2Ftoken", "/oauth2%252Ftoken", "/oauth2%5Ctoken", "/oauth2/%2e/token", "/x/%252e%252e/oauth2/token",
        "/oauth2/x/%252e%252e/token", "/%252e%252e/oauth2/token", "/oauth2/token%3Fx", "/oauth2/token%2523x",
        "/oauth2/token/%252e", "/oauth2/token%3bx",
        // Servers of Windows cut dots and spaces from the end of a name.
        "/oauth2/token.", "/oauth2/token...", "/oauth2/token%20", "/oauth2/token%2520", "/oauth2./token",
        "/oauth2%20/token%20.",
        "/oauth2/token.%20.", "/oauth2/token%2e", "/oauth2/token./", "/oauth2/token.;x", "/oauth2/token%00",
        "/oauth2/token%09",
        "/oauth2/.../token", "/oauth2/%20/token", "/oauth2/x/...//token", "/x/..%20/oauth2/token",
        "/x/.%20./oauth2/token",
        // Also where nobody has refused dot segments before.
        "/x/../oauth2/token", "/oauth2/./token", "/oauth2/x/../token", "/x/y/../../oauth2/token", "/../oauth2/token/.",
    ])
    func everySpellingIsTheEndpoint(_ path: String) throws {
        #expect(isMeant(try endpoint("https://api.box.com/oauth2/token"), by: path))
    }

    @Test(arguments: [
        "/", "/oauth2", "/oauth2/tokens", "/oauth2/toke", "/oauth2/token/x", "/x/oauth2/token", "/2.0/oauth2/token",
        "/oauth2/token/%252e%252e", "/oauth2/to%6", "/oauth2/token%", "/oauth2/%zzoken",
        "/oauth2token", "/oauth2/.token", "/oauth2/to.ken", "/oauth2/token.x", "/oauth2/%20token", "/oauth2/token%20x",
        "/oauth2/../token", "/oauth2/token/..", "/x..y/oauth2/token",
    ])
    func otherPathsAreNot(_ path: String) throws {
        #expect(!isMeant(try endpoint("https://api.box.com/oauth2/token"), by: path))
    }

    /// Looking for the last encoding from every segment on took seconds for each of these.
    @Test(.timeLimit(.minutes(5)))
    func manySegmentsAreReadOnce() throws {
        let endpoint = try endpoint("https://api.box.com/oauth2/token")
        let path = String(repeating: "/x", count: 15_000) + "/%41"
        for _ in 0..<300 { #expect(!isMeant(endpoint, by: path)) }
    }

    @Test func whatIsFilledInLaterIsAnySegment() throws {
        let endpoint = try endpoint("https://api.example.com/users/u-*/token?x=*")
        #expect(endpoint.path == "/users/*/token")
        #expect(isMeant(endpoint, by: "/users/42/token"))
        #expect(!isMeant(endpoint, by: "/users/token"))
        #expect(!isMeant(endpoint, by: "/users//token"))
        #expect(!isMeant(endpoint, by: "/users/42/43/token"))
    }

    @Test func anEndpointThatEndsWithADotIsGuardedInBothSpellings() throws {
        let endpoint = try endpoint("https://api.example.com/token./new%20")
        for path in ["/token./new%20", "/token/new", "/token/new."] { #expect(isMeant(endpoint, by: path), "\(path)") }
    }

    @Test func theRootIsAnEndpointToo() throws {
        for url in ["https://tokens.example.com", "https://tokens.example.com/", "https://tokens.example.com?id=1"] {
            let endpoint = try endpoint(url)
            #expect(endpoint.path == "/")
            #expect(isMeant(endpoint, by: "/") && isMeant(endpoint, by: "//") && !isMeant(endpoint, by: "/x"))
        }
    }

    @Test func aBasePathIsNotPartOfWhatClientsSend() throws {
        let endpoint = try endpoint("https://api.example.com/API/oauth2/token?x")
        #expect(endpoint.behind("")?.path == "/API/oauth2/token")
        #expect(endpoint.behind("/api")?.path == "/oauth2/token")
        #expect(endpoint.behind("/api.")?.path == "/oauth2/token")
        #expect(endpoint.behind("/api/oauth2/token")?.path == "/")
        #expect(endpoint.behind("/v2") == nil)
        #expect(endpoint.behind("/api/oauth2/token/x") == nil)
    }
}
