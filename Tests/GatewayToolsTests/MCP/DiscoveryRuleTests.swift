import GatewayHTTP
import Testing

@testable import GatewayTools

@Suite("Which discovered URLs are used", .timeLimit(.minutes(1)))
struct DiscoveryRuleTests {
    private static let typed = "https://mcp.example.com/mcp"

    private func rule(_ typed: String...) throws -> DiscoveryRule {
        DiscoveryRule(typed: try typed.map { try AuthorityURL($0) })
    }

    @Test(arguments: [
        "https://auth.example.org", "https://auth.example.org:8443/tenant?x=1", "https://93.184.215.14/token",
        "https://[2606:2800:220::1]/token", "HTTPS://AUTH.EXAMPLE.ORG/",
    ])
    func publicServersAreAsked(_ text: String) throws {
        #expect(try rule(Self.typed).url(text, named: "token_endpoint").text == text)
    }

    @Test(arguments: [
        // Not encrypted, or not a URL of a server.
        "http://auth.example.org/token", "ftp://auth.example.org", "file:///etc/passwd", "javascript:alert(1)", "",
        "//auth.example.org",
        "https://", "https://user:password@auth.example.org/", "https://auth.example.org/#x",
        "https://auth.example.org/a b",
        "https://auth.example.org/\u{1B}[31m", "https://аuth.example.org/",
        // This machine and its network.
        "http://127.0.0.1:9000/token", "https://127.0.0.1/token", "https://localhost/token", "https://a.localhost/",
        "https://[::1]/",
        "https://10.0.0.1/", "https://172.16.3.4/", "https://192.168.1.1/", "https://100.64.0.1/", "https://0.0.0.0/",
        "https://[fd00::1]/", "https://[fe80::1]/", "https://[::ffff:10.0.0.1]/", "https://[64:ff9b::a00:1]/",
        // Where clouds hand out credentials.
        "https://169.254.169.254/latest/meta-data", "https://[fd00:ec2::254]/",
        // What systems read as addresses, and names without a domain.
        "https://2130706433/", "https://127.1/", "https://0x7f000001/", "https://0x7f.1/", "https://vault/",
        "https://vault./",
    ])
    func othersAreNot(_ text: String) throws {
        let rule = try rule(Self.typed)
        #expect(throws: UnusableInput.self) { try rule.url(text, named: "token_endpoint") }
    }

    @Test func aHostThatWasTypedMayBeAnywhere() throws {
        #expect(try rule("https://10.0.0.1/mcp").url("https://10.0.0.1:8443/token", named: "x").origin.port == 8443)
        #expect(
            try rule("https://mcp.corp/mcp").url("https://mcp.corp/token", named: "x").text == "https://mcp.corp/token"
        )
        #expect(throws: UnusableInput.self) {
            try rule("https://10.0.0.1/mcp").url("https://10.0.0.2/token", named: "x")
        }
        let local = try rule("http://127.0.0.1:8000/mcp")
        #expect(try local.url("http://localhost:9000/token", named: "x").origin.port == 9000)
        #expect(throws: UnusableInput.self) { try local.url("http://10.0.0.1/token", named: "x") }
    }

    @Test func onlyNamesThatNobodyTypedAreLookedUp() throws {
        let rule = try rule(Self.typed)
        #expect(try rule.needsLookup(AuthorityURL("https://auth.example.org/")))
        #expect(try !rule.needsLookup(AuthorityURL("https://mcp.example.com:8443/")))
        #expect(try !rule.needsLookup(AuthorityURL("https://93.184.215.14/")))
    }

    @Test func theLengthIsLimitedAndTheMessageIsShort() throws {
        let start = "https://auth.example.org/"
        let longest = start + String(repeating: "a", count: DiscoveryRule.maximumURLBytes - start.utf8.count)
        #expect(try rule(Self.typed).url(longest, named: "x").text == longest)
        let refusal = #expect(throws: UnusableInput.self) { try rule(Self.typed).url(longest + "a", named: "x") }
        let length = try #require(refusal).message.utf8.count
        #expect(length < 100)
        let shown = #expect(throws: UnusableInput.self) { try rule(Self.typed).url("\u{1B}]0;x\u{7}", named: "x") }
        let message = try #require(shown).message
        #expect(!message.contains("\u{1B}"))
        for scheme in ["https", "http"] {
            let refused = #expect(throws: UnusableInput.self) {
                try rule(Self.typed).url("\(scheme)://me:secret@a.example/", named: "x")
            }
            #expect(try #require(refused).message.hasPrefix("x: must "))
        }
    }

    @Test(arguments: [
        ("https://h.example/mcp", ["/mcp", ""]), ("https://h.example/a/b/", ["/a/b", ""]), ("https://h.example", [""]),
        ("https://h.example/", [""]),
    ])
    func theMetadataOfAResourceStandBeforeItsPath(_ server: String, _ ends: [String]) throws {
        let expected = ends.map { "https://h.example/.well-known/oauth-protected-resource\($0)" }
        #expect(try AuthorityURL(server).resourceMetadata == expected)
    }

    /// The examples of RFC 8414 section 3.1 and of the specification of MCP.
    @Test func theMetadataOfAnIssuerAreAskedForInOrder() throws {
        #expect(
            try AuthorityURL("https://auth.example.com/tenant1/").issuerMetadata == [
                "https://auth.example.com/.well-known/oauth-authorization-server/tenant1",
                "https://auth.example.com/.well-known/openid-configuration/tenant1",
                "https://auth.example.com/tenant1/.well-known/openid-configuration",
            ]
        )
        #expect(
            try AuthorityURL("https://auth.example.com:8443").issuerMetadata == [
                "https://auth.example.com:8443/.well-known/oauth-authorization-server",
                "https://auth.example.com:8443/.well-known/openid-configuration",
            ]
        )
    }
}
