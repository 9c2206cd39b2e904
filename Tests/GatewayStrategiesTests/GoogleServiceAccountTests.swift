import GatewayConfiguration
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Service accounts of Google", .timeLimit(.minutes(5)))
struct GoogleServiceAccountTests {
    private static let seconds = Double(now.wall.milliseconds / 1000)
    private static let email = "robot@project.iam.gserviceaccount.com"
    private static let tokenURL = "https://oauth2.googleapis.com/token"
    private static let drive = "https://www.googleapis.com/auth/drive"

    private static func file(_ changes: [String: String?] = [:]) -> String {
        var members: [String: String?] = [
            "type": "service_account", "client_email": email, "private_key_id": "1f2e", "private_key": SampleKeys.rsa,
            "token_uri": tokenURL, "client_id": "123",
        ]
        members.merge(changes) { $1 }
        let object = JSONValue.object(members.compactMapValues(\.self).mapValues { .string($0) })
        return ((try? object.bytes()).map { String(decoding: $0, as: UTF8.self) }) ?? ""
    }

    private static func block(_ more: [(String, FixtureNode)]) -> FixtureNode {
        .mapping([("service_account", ["env": "KEY"])] + more)
    }

    private func google(_ more: [(String, FixtureNode)], _ changes: [String: String?] = [:]) throws -> any TokenGrant {
        try grant("google_service_account", Self.block(more), ["KEY": Self.file(changes)])
    }

    @Test func scopesAreAClaimAndNotInTheForm() throws {
        let grant = try google([("scopes", ["\(Self.drive)", "email"]), ("subject", "ada@example.com")])
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        let text = try request.parameter("assertion")
        let assertion = try SignedToken(text)
        #expect(assertion.header == .object(["alg": .string("RS256"), "kid": .string("1f2e"), "typ": .string("JWT")]))
        #expect(
            assertion.claims
                == .object([
                    "iss": .string(Self.email), "sub": .string("ada@example.com"),
                    "scope": .string("\(Self.drive) email"), "aud": .string(Self.tokenURL),
                    "iat": .number(.init(Self.seconds)), "exp": .number(.init(Self.seconds + 60)),
                ])
        )
        #expect(try assertion.isGenuine())
        #expect(
            request.wire == """
                POST \(Self.tokenURL)

                grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(text)
                """
        )
        #expect(grant.identity.subject == "ada@example.com")
    }

    @Test func aTokenForAnAudienceIsSignedHere() throws {
        let grant = try google([("audience", "https://pubsub.googleapis.com/")])
        guard case .token(let token) = grant.firstStep(holding: nil, at: now) else { throw WrongKind() }
        let signed = try SignedToken(token.access.text)
        #expect(
            signed.claims
                == .object([
                    "iss": .string(Self.email), "sub": .string(Self.email),
                    "aud": .string("https://pubsub.googleapis.com/"),
                    "iat": .number(.init(Self.seconds)), "exp": .number(.init(Self.seconds + 3600)),
                ])
        )
        #expect(try signed.isGenuine())
        #expect(token.lifetime == .seconds(3600))
        #expect(grant.authorityEndpoints == [])
    }

    @Test func anIdentityTokenIsTakenFromTheAnswer() throws {
        let grant = try google([("target_audience", "https://service.run.app")])
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        let claims = try SignedToken(request.parameter("assertion")).claims
        #expect(claims["target_audience"] == .string("https://service.run.app"))
        #expect(claims["scope"] == nil)
        #expect(claims["sub"] == nil)
        let token = jwt(#"{"exp":\#(Int(Self.seconds) + 3600)}"#)
        let read = try grant.interpret(TokenReply(200, #"{"id_token":"\#(token)"}"#), holding: nil, at: now).get()
        #expect(read.access == Secret(token))
        #expect(read.lifetime == .seconds(3600))
        let refused = grant.interpret(TokenReply(400, #"{"error":"invalid_grant"}"#), holding: nil, at: now).failure
        #expect(refused?.class == .terminal)
    }

    private static let files: [([String: String?], String)] = [
        (
            ["type": "authorized_user"],
            "is the login of a person (authorized_user); use the strategy oauth2_authorization_code with the client_id,"
                + " client_secret and refresh_token of this file"
        ),
        (
            ["type": "external_account"],
            "points to other credentials (external_account) and contains no key; use the strategy exec with the command"
                + " [gcloud, auth, application-default, print-access-token] and format: text"
        ),
        (
            ["type": "something"],
            "is not the key of a service account; its \"type\" is not service_account"
        ),
        (
            ["private_key": nil],
            "there is no client_email or no private_key in it; download a new JSON key"
        ),
        (
            ["token_uri": "http://evil.example/token"],
            "there is no token_uri in it that is an https URL; download a new JSON key"
        ),
        (["private_key": "hello"], "is not a private key in PEM (\"-----BEGIN … PRIVATE KEY-----\")"),
        (["private_key": SampleKeys.p256], "RS256 needs an RSA key"),
    ]

    @Test(arguments: files)
    func anotherFileIsRefusedWithWhatToDo(_ changes: [String: String?], _ message: String) throws {
        let found = try problems("google_service_account", Self.block([("scopes", ["a"])]), ["KEY": Self.file(changes)])
        #expect(found == ["service_account: \(message)"])
    }

    @Test func aTokenIsForOneThing() throws {
        let wanted =
            "a token of a service account is for exactly one of scopes (an access token), audience (signed here) and"
            + " target_audience (an ID token)"
        let file = ["KEY": Self.file()]
        #expect(try problems("google_service_account", Self.block([]), file) == [wanted])
        #expect(
            try problems("google_service_account", Self.block([("scopes", ["a"]), ("audience", "b")]), file) == [wanted]
        )
        #expect(
            try problems("google_service_account", Self.block([("subject", "a"), ("audience", "b")]), file) == [
                "subject: is for scopes: only an access token can be for another user"
            ]
        )
        #expect(
            try problems("google_service_account", ["scopes": ["a"]]) == ["missing key \"service_account\""]
        )
        #expect(
            try problems("google_service_account", Self.block([("scopes", ["a"])]), ["KEY": "{"]) == [
                "service_account: is not the JSON key of a service account (Google Cloud console, Service Accounts, Keys)"
            ]
        )
    }

    @Test func everyInputMakesAnotherToken() throws {
        let grants = try [
            google([("scopes", ["a"])]), google([("scopes", ["b"])]), google([("scopes", ["a"]), ("subject", "ada")]),
            google([("audience", "a")]), google([("target_audience", "a")]),
            google([("scopes", ["a"])], ["client_email": "other@project.iam.gserviceaccount.com"]),
            google([("scopes", ["a"])], ["private_key_id": "2"]),
            google([("scopes", ["a"])], ["token_uri": "https://other.example.com/token"]),
        ]
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }

    @Test func theGrantConforms() throws {
        let success = TokenReply(200, #"{"access_token":"new","token_type":"Bearer","expires_in":3599}"#)
        try TokenGrantConformance(google([("scopes", ["a"])]), success: success).check()
        try TokenGrantConformance(google([("audience", "a")]), success: TokenReply(status: 200)).check()
        let identity = TokenReply(200, #"{"id_token":"\#(jwt(#"{"exp":1772361000}"#))"}"#)
        try TokenGrantConformance(google([("target_audience", "a")]), success: identity).check()
    }
}
