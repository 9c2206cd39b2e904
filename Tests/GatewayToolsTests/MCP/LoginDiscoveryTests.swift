import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayTools

@Suite("Where to log in for an MCP server", .timeLimit(.minutes(1)))
struct LoginDiscoveryTests {
    private typealias Answer = ScriptedTokenEndpoint.Answer

    private static let server = "https://mcp.example.com/mcp"
    private static let resourcePlace = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
    private static let issuerPlace = "https://auth.example.org/.well-known/oauth-authorization-server"
    private static let missing = Answer.json("{}", status: 404)
    private static let challenge = Answer.json(
        "{}",
        status: 401,
        fields: [.init(name: "WWW-Authenticate", value: #"Bearer resource_metadata="\#(resourcePlace)", scope="read""#)]
    )
    private static let resource = Answer.json(
        #"{"resource":"\#(server)","authorization_servers":["https://auth.example.org","https://other.example.org"]}"#
    )

    private static func metadata(_ issuer: String = "https://auth.example.org", _ more: String = "") -> Answer {
        .json(
            #"{"issuer":"\#(issuer)","authorization_endpoint":"\#(issuer)/authorize","token_endpoint":"\#(issuer)/token","#
                + #""registration_endpoint":"\#(issuer)/register","code_challenge_methods_supported":["S256"]\#(more)}"#
        )
    }

    private static let usual = [server: challenge, resourcePlace: resource, issuerPlace: metadata()]

    private let asked = Asked()

    /// The hosts whose names were looked up.
    private final class Asked: Sendable {
        private let hosts = Mutex<[String]>([])
        var names: [String] { hosts.withLock(\.self) }
        func note(_ host: String) { hosts.withLock { $0.append(host) } }
    }

    private func endpoint(_ answers: [String: Answer]) -> ScriptedTokenEndpoint {
        ScriptedTokenEndpoint { request, _ in answers[request.url.text] ?? Self.missing }
    }

    private func discovery(
        _ endpoint: ScriptedTokenEndpoint,
        typed: [String] = [server],
        privateNames: Set<String> = [],
        unknownNames: Set<String> = []
    ) throws -> LoginDiscovery {
        let rule = DiscoveryRule(typed: try typed.map { try AuthorityURL($0) })
        return LoginDiscovery(endpoint, rule) { [asked] origin in
            asked.note(origin.host)
            return unknownNames.contains(origin.host) ? nil : !privateNames.contains(origin.host)
        }
    }

    private func findings(_ answers: [String: Answer], issuer: String? = nil) async throws -> LoginDiscovery.Findings {
        let typed = try issuer.map { try AuthorityURL($0) }
        let discovery = try discovery(endpoint(answers), typed: [Self.server] + [issuer].compactMap(\.self))
        return try await discovery.findings(of: try AuthorityURL(Self.server), issuer: typed)
    }

    private func refusal(_ answers: [String: Answer], issuer: String? = nil) async -> String? {
        do {
            _ = try await findings(answers, issuer: issuer)
            return nil
        } catch {
            return (error as? UnusableInput)?.message ?? "\(error)"
        }
    }

    // MARK: The way

    @Test func theChallengeLeadsToTheAuthorizationServer() async throws {
        let endpoint = endpoint(Self.usual)
        let found = try await discovery(endpoint).findings(of: try AuthorityURL(Self.server))
        #expect(found.resource == Self.server && found.scopes == ["read"])
        #expect(found.server.issuer == "https://auth.example.org")
        #expect(endpoint.requests.map(\.url.text) == [Self.server, Self.resourcePlace, Self.issuerPlace])
        #expect(endpoint.requests.map(\.method) == [.post, .get, .get])
        #expect(endpoint.deadlines.allSatisfy { $0 == TokenRequest.longestCall })
        #expect(Set(asked.names) == ["auth.example.org"], "the host that was typed may be anywhere")
    }

    @Test func withoutAChallengeTheWellKnownPlacesAreAsked() async throws {
        for status in [200, 401, 403, 405, 307] {
            var answers = Self.usual
            answers[Self.server] = .json("{}", status: status)
            #expect(try await findings(answers).server.issuer == "https://auth.example.org")
        }
        var answers = Self.usual
        answers[Self.server] = .json("{}", status: 401)
        answers[Self.resourcePlace] = nil
        answers["https://mcp.example.com/.well-known/oauth-protected-resource"] = .json(
            #"{"resource":"https://mcp.example.com","authorization_servers":["https://auth.example.org"]}"#
        )
        #expect(try await findings(answers).resource == "https://mcp.example.com")
    }

    @Test func withoutMetadataOfTheResourceItsHostIsTheIssuer() async throws {
        let own = "https://mcp.example.com"
        let found = try await findings(["\(own)/.well-known/oauth-authorization-server": Self.metadata(own)])
        #expect(found.server.issuer == own && found.resource == Self.server)
    }

    @Test func openIDDiscoveryIsTheFallback() async throws {
        var answers = Self.usual
        answers[Self.issuerPlace] = nil
        answers["https://auth.example.org/.well-known/openid-configuration"] = Self.metadata()
        #expect(try await findings(answers).server.tokenURL.text == "https://auth.example.org/token")
    }

    @Test func aPersonMayChooseAmongTheIssuersThatAreNamed() async throws {
        var answers = Self.usual
        let place = "https://other.example.org/.well-known/oauth-authorization-server"
        answers[place] = Self.metadata("https://other.example.org")
        #expect(
            try await findings(answers, issuer: "https://other.example.org").server.issuer
                == "https://other.example.org"
        )
        let message = try #require(await refusal(answers, issuer: "https://third.example.org"))
        #expect(
            message.contains("does not accept tokens of https://third.example.org")
                && message.contains("auth.example.org")
        )
    }

    // MARK: Hostile servers

    private static func named(_ issuer: String) -> Answer {
        .json(#"{"resource":"\#(server)","authorization_servers":["\#(issuer)"]}"#)
    }

    @Test(arguments: [
        "http://auth.example.org", "https://127.0.0.1:9000", "https://localhost", "https://169.254.169.254",
        "https://10.0.0.1",
        "https://user@auth.example.org", "file:///etc/passwd", "https://auth.example.org?x=1",
    ])
    func anIssuerOfThePrivateNetworkIsNotAsked(_ issuer: String) async throws {
        var answers = Self.usual
        answers[Self.resourcePlace] = Self.named(issuer)
        let endpoint = endpoint(answers)
        await #expect(throws: UnusableInput.self) {
            try await discovery(endpoint).findings(of: try AuthorityURL(Self.server))
        }
        #expect(endpoint.requests.count == 2, "nobody was asked after the MCP server")
    }

    @Test func aNameThatLeadsToThePrivateNetworkIsNotAsked() async throws {
        for (host, count) in [("auth.example.org", 2), ("tokens.example.org", 3)] {
            var answers = Self.usual
            answers[Self.issuerPlace] = Self.metadata(
                "https://auth.example.org",
                #","revocation_endpoint":"https://tokens.example.org/revoke""#
            )
            let endpoint = endpoint(answers)
            let (hidden, unknown) = (
                try discovery(endpoint, privateNames: [host]), try discovery(endpoint, unknownNames: [host])
            )
            await #expect(throws: UnusableInput.self) { try await hidden.findings(of: try AuthorityURL(Self.server)) }
            #expect(endpoint.requests.count == count)
            await #expect(throws: UnusableInput.self) { try await unknown.findings(of: try AuthorityURL(Self.server)) }
        }
    }

    @Test(arguments: ["http://mcp.example.com/m", "https://[::1]/m", "https://metadata/m", "not a url"])
    func metadataOfTheChallengeArePublic(_ place: String) async throws {
        var answers = Self.usual
        let field = TokenReply.Field(name: "www-authenticate", value: "Bearer resource_metadata=\"\(place)\"")
        answers[Self.server] = .json("{}", status: 401, fields: [field])
        #expect(try #require(await refusal(answers)).contains("resource_metadata"))
    }

    @Test func metadataThatAreAboutOthersAreRefused() async throws {
        var answers = Self.usual
        answers[Self.resourcePlace] = .json(
            #"{"resource":"https://bank.example/mcp","authorization_servers":["https://auth.example.org"]}"#
        )
        #expect(try #require(await refusal(answers)).contains("about another resource: \"https://bank.example/mcp\""))
        answers = Self.usual
        answers[Self.issuerPlace] = Self.metadata("https://bank.example")
        #expect(try #require(await refusal(answers)).contains("about another issuer: \"https://bank.example\""))
    }

    @Test func whatCannotBeReadIsPassedOverAndTold() async throws {
        let repeated = Self.metadata("https://auth.example.org", #","token_endpoint":"https://evil.example/token""#)
        for (answer, words) in [
            (Answer.json("<html>"), "no JSON object"), (repeated, "a repeated name"),
            (Answer.json("[]"), "no JSON object"),
            (Answer.json("{}", status: 302), "a redirect (302), which is not followed"), (Self.missing, "status 404"),
        ] {
            var answers = Self.usual
            answers[Self.issuerPlace] = answer
            let message = try #require(await refusal(answers))
            #expect(message.contains("\n  \(Self.issuerPlace): ") && message.contains(words), "\(message)")
        }
    }

    @Test func aServerThatDoesNotAnswerIsNamed() async throws {
        for (reason, words) in [
            (TokenTransportFailure.Reason.answerTooLarge, "too large"), (.responseTimeout, "did not answer in time"),
            (.connectionRefused, "refuses connections"), (.nameNotResolved, "cannot be resolved"),
        ] {
            var answers = Self.usual
            answers[Self.issuerPlace] = .failure(TokenTransportFailure(reason, mayHaveBeenProcessed: false))
            let message = try #require(await refusal(answers))
            #expect(
                message.contains("auth.example.org") && message.contains(words) && !message.contains("token endpoint")
            )
        }
    }

    // MARK: Registration

    private func register(_ answer: Answer, _ more: String = "") async throws -> (LoginClient, TokenRequest) {
        var answers = Self.usual
        answers[Self.issuerPlace] = Self.metadata("https://auth.example.org", more)
        answers["https://auth.example.org/register"] = answer
        let endpoint = endpoint(answers)
        let discovery = try discovery(endpoint)
        let found = try await discovery.findings(of: try AuthorityURL(Self.server))
        let url = try #require(found.server.registrationURL)
        let client = try await discovery.register(
            at: url,
            as: found.server.methods.first ?? .none,
            scopes: found.scopes,
            redirectingTo: "http://127.0.0.1:61234/callback"
        )
        return (client, try #require(endpoint.requests.last))
    }

    @Test func aNativePublicClientIsRegistered() async throws {
        let (client, request) = try await register(.json(#"{"client_id":"c1"}"#, status: 201))
        #expect(client.id == "c1" && client.method == .none)
        guard case .content(type: "application/json", let body) = request.body else {
            Issue.record("no JSON")
            return
        }
        let sent = try #require(body.withValue { JSONValue(Array($0.utf8)) })
        #expect(sent["redirect_uris"] == .array([.string("http://127.0.0.1:61234/callback")]))
        #expect(sent["application_type"]?.string == "native" && sent["scope"]?.string == "read")
        #expect(sent["token_endpoint_auth_method"]?.string == "none")
        #expect(sent["grant_types"] == .array([.string("authorization_code"), .string("refresh_token")]))
    }

    @Test func theMethodIsOneThatTheServerHas() async throws {
        let answer = Answer.json(#"{"client_id":"c1","client_secret":"s"}"#, status: 201)
        let more = #","token_endpoint_auth_methods_supported":["client_secret_basic"]"#
        let (client, _) = try await register(answer, more)
        #expect(client.method == .basic && client.secret == Secret("s"))
    }

    @Test(arguments: [
        Answer.error("invalid_redirect_uri"), .json("", status: 500), .json("{}", status: 201),
        .json("{}", status: 307),
    ])
    func aRefusalIsTold(_ answer: ScriptedTokenEndpoint.Answer) async {
        await #expect(throws: UnusableInput.self) { try await register(answer) }
    }

    // MARK: What is written and shown

    @Test func theCredentialBindsTheLoginToServerAndIssuer() async throws {
        let found = try await findings(Self.usual)
        let client = try LoginClient(typed: "app")
        #expect(
            found.credential(of: client, secret: nil, redirect: "http://127.0.0.1:61234/callback") == [
                "strategy: oauth2_authorization_code", "authorize_url: https://auth.example.org/authorize",
                "token_url: https://auth.example.org/token", "client_id: app",
                "redirect_uri: http://127.0.0.1:61234/callback", "scopes: [read]", "issuer: https://auth.example.org",
                "issuer_required: false", "authorize_parameters: {resource: https://mcp.example.com/mcp}",
                "parameters: {resource: https://mcp.example.com/mcp}",
            ]
        )
        var answers = Self.usual
        let more = #","authorization_response_iss_parameter_supported":true"#
        answers[Self.issuerPlace] = Self.metadata("https://auth.example.org", more)
        let strict = try await findings(answers)
        let lines = strict.credential(of: client.authenticating(by: .basic), secret: "{file: x}", redirect: nil)
        #expect(!lines.contains { $0.hasPrefix("issuer_required") || $0.hasPrefix("redirect_uri") })
        #expect(lines.contains("client_secret: {file: x}") && lines.contains("client_auth: basic"))
    }

    @Test func whatMetadataSayCannotBecomeAnotherKey() async throws {
        var answers = Self.usual
        answers[Self.issuerPlace] = Self.metadata(
            "https://auth.example.org",
            #","revocation_endpoint":"https://a.example/${HOME},x:y""#
        )
        let lines = try await findings(answers).credential(
            of: LoginClient(typed: "a: b #${X}"),
            secret: nil,
            redirect: nil
        )
        #expect(lines.contains(#"revoke_url: "https://a.example/$${HOME},x:y""#))
        #expect(lines.contains(##"client_id: "a: b #$${X}""##))
    }

    @Test func aPersonSeesTheAuthorizationServerBeforeTheLogin() async throws {
        let found = try await findings(Self.usual)
        let text = LoginSummary(try AuthorityURL(Self.server), found, client: nil).text
        #expect(text.contains("Authorization server  auth.example.org (https://auth.example.org)\n"))
        #expect(text.contains("The MCP server is on another host"))
        let own = LoginSummary(try AuthorityURL("https://auth.example.org/mcp"), found, client: nil).text
        #expect(!own.contains("another host"))
        #expect(text.contains("Scopes                read\n") && text.contains("registered at auth.example.org\n"))
        let document = try LoginClient(typed: "https://app.example/c.json")
        #expect(
            LoginSummary(try AuthorityURL(Self.server), found, client: document).text.contains(
                "does not say that it accepts"
            )
        )
    }
}
