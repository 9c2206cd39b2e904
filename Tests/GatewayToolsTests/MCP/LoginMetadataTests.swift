import GatewayHTTP
import Testing

@testable import GatewayTools

@Suite("What servers say about logins", .timeLimit(.minutes(1)))
struct LoginMetadataTests {
    // MARK: The challenge

    private static let challenges: [([String], String?, [String]?)] = [
        (["Bearer resource_metadata=\"https://h.example/m\", scope=\"a b\""], "https://h.example/m", ["a", "b"]),
        (["Bearer error=\"invalid_token\", resource_metadata=\"https://h.example/m\""], "https://h.example/m", nil),
        (["Basic realm=\"x\"", "bearer scope=a"], nil, ["a"]),
        (["Basic realm=\"x\", Bearer resource_metadata=\"https://h.example/m\""], "https://h.example/m", nil),
        // The first counts, in one challenge and among several.
        (
            ["Bearer resource_metadata=\"https://one.example\", resource_metadata=\"https://two.example\""],
            "https://one.example", nil
        ),
        (
            ["Bearer scope=\"a\"", "Bearer resource_metadata=\"https://h.example/m\", scope=\"b\""],
            "https://h.example/m", ["b"]
        ),
        // The metadata of another scheme are not those of bearer tokens.
        (["Basic resource_metadata=\"https://evil.example\""], nil, nil), ([], nil, nil), (["Bearer"], nil, nil),
        (["Bearer scope=\"\""], nil, []), (["Bearer scope=\"a a\""], nil, ["a"]),
    ]

    @Test(arguments: challenges)
    func aChallengeIsRead(_ fields: [String], _ metadata: String?, _ scopes: [String]?) throws {
        let challenge = try LoginChallenge(fields)
        #expect(challenge.metadata == metadata && challenge.scopes == scopes)
    }

    @Test(arguments: ["a\\\\b", "\u{E9}", String(repeating: "a", count: 257), String(repeating: "a ", count: 65)])
    func scopesThatAreNoneAreRefused(_ scope: String) {
        #expect(throws: UnusableInput.self) { try LoginChallenge(["Bearer scope=\"\(scope)\""]) }
    }

    // MARK: The resource

    private static let server = "https://h.example/team/mcp"

    private func resource(_ json: String, _ server: String = server) throws -> ResourceMetadata {
        let document = try #require(JSONValue(Array(json.utf8), uniqueNames: true))
        return try ResourceMetadata(document, of: AuthorityURL(server), at: "https://h.example/m")
    }

    @Test(arguments: [
        "https://h.example/team/mcp", "https://h.example/team/mcp/", "https://h.example/team", "https://h.example",
        "https://h.example/", "https://h.example:443/team/mcp", "https://H.EXAMPLE/team/mcp",
    ])
    func theResourceIsTheServerOrAboveIt(_ text: String) throws {
        let found = try resource(#"{"resource":"\#(text)","authorization_servers":["https://auth.example"]}"#)
        #expect(found.resource == text && found.issuers == ["https://auth.example"] && found.scopes == nil)
    }

    @Test(arguments: [
        "https://evil.example/team/mcp", "http://h.example/team/mcp", "https://h.example:8443/team/mcp",
        "https://h.example/team/mc",
        "https://h.example/team/mcp/more", "https://h.example/tea", "https://h.example/other",
        "https://h.example.evil.example/team/mcp",
        "https://h.example@evil.example/team/mcp", "https://h.example/team/mcp?x=1", "https://h.example/team/mcp#x",
        "team/mcp", "",
    ])
    func aDocumentAboutAnotherResourceIsRefused(_ text: String) {
        let json = #"{"resource":"\#(text)","authorization_servers":["https://auth.example"]}"#
        #expect(throws: UnusableInput.self) { try resource(json) }
    }

    @Test(arguments: [
        "{}", #"{"resource":["https://h.example"]}"#, #"{"resource":"https://h.example"}"#,
        #"{"resource":"https://h.example","authorization_servers":[]}"#,
        #"{"resource":"https://h.example","authorization_servers":"https://auth.example"}"#,
        #"{"resource":"https://h.example","authorization_servers":[1]}"#,
        #"{"resource":"https://h.example","authorization_servers":["https://auth.example"],"scopes_supported":["a b"]}"#,
    ])
    func aDocumentWithoutAServerIsRefused(_ json: String) {
        #expect(throws: UnusableInput.self) { try resource(json) }
    }

    @Test func listsAreBounded() {
        func list(_ count: Int) -> String { (0..<count).map { "\"https://a\($0).example\"" }.joined(separator: ",") }
        let most = ResourceMetadata.maximumIssuers
        #expect(throws: Never.self) {
            try resource("{\"resource\":\"https://h.example\",\"authorization_servers\":[\(list(most))]}")
        }
        #expect(throws: UnusableInput.self) {
            try resource("{\"resource\":\"https://h.example\",\"authorization_servers\":[\(list(most + 1))]}")
        }
    }

    // MARK: The authorization server

    private static let issuer = "https://auth.example/tenant"
    private static let members: [String: JSONValue] = [
        "issuer": .string(issuer), "authorization_endpoint": .string("https://auth.example/authorize"),
        "token_endpoint": .string("https://tokens.example/token"),
        "code_challenge_methods_supported": .array([.string("S256")]),
    ]

    private func server(_ changes: [String: JSONValue] = [:], issuer: String = issuer) throws -> AuthorizationServer {
        let document = JSONValue.object(Self.members.merging(changes) { $1 })
        let rule = DiscoveryRule(typed: [try AuthorityURL(Self.server)])
        return try AuthorizationServer(document, of: AuthorityURL(issuer), at: "https://auth.example/m", rule)
    }

    @Test func aServerIsRead() throws {
        let plain = try server()
        #expect(
            plain.tokenURL.text == "https://tokens.example/token" && plain.registrationURL == nil
                && plain.revokeURL == nil
        )
        #expect(!plain.namesIssuer && !plain.acceptsDocuments && !plain.offersOfflineAccess)
        #expect(plain.methods == [.none, .post, .basic])
        let whole = try server([
            "registration_endpoint": .string("https://auth.example/register"),
            "revocation_endpoint": .string("https://auth.example/revoke"),
            "authorization_response_iss_parameter_supported": .bool(true),
            "client_id_metadata_document_supported": .bool(true),
            "token_endpoint_auth_methods_supported": .array([
                .string("client_secret_basic"), .string("private_key_jwt"),
            ]),
            "scopes_supported": .array([.string("a"), .string("offline_access")]),
        ])
        #expect(whole.namesIssuer && whole.acceptsDocuments && whole.offersOfflineAccess && whole.methods == [.basic])
        #expect(whole.registrationURL?.text == "https://auth.example/register")
    }

    @Test(arguments: [
        "https://evil.example/tenant", "https://auth.example", "https://auth.example/tenant/",
        "https://auth.example/Tenant",
        "HTTPS://auth.example/tenant", "https://auth.example:443/tenant", "https://auth.example/tenant2", "",
    ])
    func metadataOfAnotherIssuerAreRefused(_ name: String) {
        #expect(throws: UnusableInput.self) { try server(["issuer": .string(name)]) }
    }

    @Test(arguments: [
        ("https://auth.example", "https://auth.example/"), ("https://auth.example/", "https://auth.example"),
    ])
    func theSlashOfAnEmptyPathMakesNoDifference(_ asked: String, _ named: String) throws {
        #expect(try server(["issuer": .string(named)], issuer: asked).issuer == named)
    }

    @Test(arguments: [
        "issuer", "authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint",
    ])
    func noURLMayBeOfThisMachineOrInClear(_ key: String) {
        for text in [
            "http://auth.example/x", "https://127.0.0.1/x", "https://169.254.169.254/x", "javascript:alert(1)", "/x",
        ] {
            #expect(throws: UnusableInput.self, "\(text)") { try server([key: .string(text)]) }
        }
        #expect(throws: UnusableInput.self) { try server([key: .array([.string("https://auth.example/x")])]) }
    }

    private static let unusable: [[String: JSONValue]] = [
        ["authorization_endpoint": .null], ["token_endpoint": .null],
        ["code_challenge_methods_supported": .null],
        ["code_challenge_methods_supported": .array([.string("plain")])],
        ["code_challenge_methods_supported": .string("S256")],
        ["token_endpoint_auth_methods_supported": .string("none")],
    ]

    @Test(arguments: unusable)
    func whatALoginNeedsIsRequired(_ changes: [String: JSONValue]) {
        #expect(throws: UnusableInput.self) { try server(changes) }
    }

    @Test func theChallengeChoosesTheScopes() throws {
        let json =
            #"{"resource":"https://h.example","authorization_servers":["https://a.example"],"scopes_supported":["r"]}"#
        let (resource, none) = (try resource(json), try LoginChallenge([]))
        let challenge = try LoginChallenge(["Bearer scope=\"c\""])
        let offline = try server(["scopes_supported": .array([.string("offline_access")])])
        #expect(try server().scopes(challenge, resource) == ["c"])
        #expect(try server().scopes(none, resource) == ["r"])
        #expect(offline.scopes(none, resource) == ["r", "offline_access"])
        #expect(offline.scopes(none, nil) == [], "offline_access alone would be all that the login asks for")
    }

    // MARK: The client

    @Test(arguments: [
        "app", "https://app.example/client.json", "api://guid", "a b", "0oa1b2c3",
    ])
    func aClientThatAPersonNamesIsTaken(_ id: String) throws {
        #expect(try LoginClient(typed: id).id == id)
    }

    @Test(arguments: [
        "", "https://app.example", "https://app.example/", "https://app.example/c#x", "https://u@app.example/c",
        "caf\u{E9}", "a\nb",
        String(repeating: "a", count: 2049),
    ])
    func anIDThatIsNoneIsRefused(_ id: String) {
        #expect(throws: UnusableInput.self) { try LoginClient(typed: id) }
    }

    @Test func aMethodIsNamedInTheConfigurationAsInRegistrations() {
        for method in ClientMethod.allCases { #expect(ClientMethod(key: method.key) == method) }
        #expect(ClientMethod(key: "private_key_jwt") == nil)
    }

    private func registered(_ json: String, _ asked: ClientMethod = .none) throws -> LoginClient {
        try LoginClient(JSONValue(Array(json.utf8), uniqueNames: true), asked: asked)
    }

    @Test func aRegistrationSaysHowTheClientAuthenticates() throws {
        let open = try registered(#"{"client_id":"c","client_secret":"s"}"#)
        #expect(open.method == .none && open.secret == nil, "a public client has none, whatever it was sent")
        let post = try registered(
            #"{"client_id":"c","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}"#
        )
        #expect(post.method == .post && post.secret == Secret("s"))
        #expect(try registered(#"{"client_id":"c","client_secret":"s"}"#, .basic).method == .basic)
    }

    @Test(arguments: [
        "", "<html>", "[]", "{}", #"{"client_id":""}"#, #"{"client_id":1}"#, #"{"client_id":"c","client_id":"d"}"#,
        #"{"client_id":"c","token_endpoint_auth_method":"private_key_jwt"}"#,
        #"{"client_id":"c","token_endpoint_auth_method":"client_secret_post"}"#,
        #"{"client_id":"c","token_endpoint_auth_method":"client_secret_post","client_secret":""}"#,
        #"{"client_id":"c\n","client_secret":"s"}"#,
    ])
    func aRegistrationThatCannotBeUsedIsRefused(_ json: String) {
        #expect(throws: UnusableInput.self) { try registered(json) }
    }
}
