import Testing

@testable import GatewayHTTP
@testable import GatewayTokens

@Suite("What an answer without a token says", .timeLimit(.minutes(5)))
struct AuthorityErrorTests {
    private static func read(_ status: Int, _ body: String, hiding secrets: String...) -> AuthorityError? {
        let reply = TokenReply(status: status, body: Array(body.utf8))
        return AuthorityError(reply, hiding: secrets.map { Secret($0) })
    }

    private static let table:
        [(status: Int, body: String, code: String?, description: String?, AuthorityError.Format?)] = [
            (
                400, #"{"error":"invalid_grant","error_description":"AADSTS70043: The refresh token has expired."}"#,
                "invalid_grant", "AADSTS70043: The refresh token has expired.", .oauth
            ),
            (401, #"{"error":"invalid_client"}"#, "invalid_client", nil, nil),
            (400, #"{"error":"Bad credentials for this app"}"#, nil, "Bad credentials for this app", .json),
            (403, #"{"message":"The account is locked."}"#, nil, "The account is locked.", .json),
            (
                401, #"{"error":{"code":401,"message":"Request had invalid credentials.","status":"UNAUTHENTICATED"}}"#,
                "unauthenticated", "Request had invalid credentials.", .json
            ),
            (422, #"{"errors":[{"code":"E7","detail":"No such grant."}]}"#, "e7", "No such grant.", .json),
            (
                400, #"{"title":"One or more errors","detail":"The field x is missing."}"#, nil,
                "The field x is missing.", .json
            ),
            (
                200, #"{"error":"bad_refresh_token","error_description":"It is spent."}"#, "bad_refresh_token",
                "It is spent.", .oauth
            ),
            (503, "upstream connect error", nil, "upstream connect error", .text),
            (
                502, "<html><head><TITLE>502 Bad Gateway</TITLE></head><body>x</body></html>", nil, "502 Bad Gateway",
                .html
            ),
            (
                403, "<html><style>p{}</style><body><h1>Blocked</h1><p>by &lt;policy&gt;</p></body>", nil,
                "Blocked by <policy>", .html
            ),
            (
                500, "<s:Envelope><s:Fault><faultstring>Wrong realm</faultstring></s:Fault></s:Envelope>", nil,
                "Wrong realm",
                .html
            ),
            (
                200, "<!doctype html><title>Sign in to the hotel network</title>", nil, "Sign in to the hotel network",
                .html
            ),
            // What may be a token is not shown.
            (200, "short-token", nil, nil, nil), (200, #"{"tok":"short-token"}"#, nil, nil, nil),
            (200, #""short-token""#, nil, nil, nil), (400, "", nil, nil, nil), (400, "[]", nil, nil, nil),
            (400, "\u{0}\u{1}\u{2}", nil, nil, nil),
        ]

    @Test func whatIsShownOfAnAnswer() {
        for (status, body, code, description, format) in Self.table {
            let said = Self.read(status, body)
            #expect(said?.status == status, "\(body)")
            #expect(said?.code == code, "\(body)")
            #expect(said?.description == description, "\(body)")
            #expect(said?.format == format, "\(body)")
        }
    }

    @Test(arguments: ["access_token", "refresh_token", "id_token"])
    func aTokenOfTheAnswerIsHiddenInItsWords(_ member: String) {
        let said = Self.read(
            400,
            #"{"error":"invalid_grant","\#(member)":"r7-kq2-mz","error_description":"r7-kq2-mz is spent."}"#
        )
        #expect(said?.code == "invalid_grant")
        #expect(said?.description == "\(AuthorityText.hidden) is spent.")
        let word = Self.read(400, #"{"\#(member)":"is invalid","error_description":"It is invalid."}"#)
        #expect(word?.description == "It is invalid.")
        let code = Self.read(400, #"{"error":"invalid_grant","\#(member)":"invalid_grant"}"#)
        #expect(code?.code == "invalid_grant")
    }

    @Test func aDocumentIsCutAt100Characters() {
        let said = Self.read(500, String(repeating: "word ", count: 100))
        #expect(said?.description?.count == 101)
    }

    @Test func anImageIsNoText() {
        let reply = TokenReply(status: 500, body: (0..<2000).map { UInt8(truncatingIfNeeded: $0 &* 151 | 128) })
        #expect(AuthorityError(reply, hiding: [])?.description == nil)
    }

    @Test func whatAProgramPrintsIsNotShown() {
        let body = Array(#"{"error":"invalid_grant","error_description":"x"}"#.utf8)
        #expect(AuthorityError(TokenReply(output: body), hiding: []) == nil)
    }

    @Test(arguments: [
        ("https://id.example.com/errors/7?code=70043", "https://id.example.com/errors/7?code=70043"),
        ("javascript:alert(1)", nil),
        ("https://x.example/?access_token=abc", "https://x.example/?access_token=‹hidden›"),
    ])
    func thePageAboutAnErrorIsAnAddress(_ uri: String, _ shown: String?) {
        #expect(Self.read(400, #"{"error":"invalid_grant","error_uri":"\#(uri)"}"#)?.uri == shown)
    }

    @Test func theSecretsOfTheRequestAreHiddenEverywhere() throws {
        let body =
            #"{"error":"s3cret-of-mine","error_description":"got s3cret-of-mine","error_uri":"https://e.example/s3cret-of-mine"}"#
        let said = try #require(Self.read(400, body, hiding: "s3cret-of-mine"))
        #expect(said.code == "‹hidden›")
        #expect(said.description == "got ‹hidden›")
        #expect(said.uri == "‹hidden›")
        #expect(Self.read(500, "<title>s3cret-of-mine</title>", hiding: "s3cret-of-mine")?.description == "‹hidden›")
    }

    @Test func inALogItHasAFieldForEachPart() {
        let said = Self.read(400, #"{"error":"invalid_grant","error_description":"It is spent."}"#)
        #expect(
            said?.members(clockSkew: 7) == [
                "authority_code": "invalid_grant", "authority_description": "It is spent.", "authority_format": "oauth",
                "clock_skew_seconds": "7",
            ]
        )
        #expect(said?.members(clockSkew: 0)["clock_skew_seconds"] == nil)
        #expect(said?.text == "400 invalid_grant: It is spent.")
    }

    // MARK: In the address after a login

    @Test func theAnswerToALoginIsRead() throws {
        let address =
            "http://127.0.0.1:1/cb?error=access_denied&state=st4te-1234&error_description=No+entry+st4te-1234#x"
        let said = try #require(AuthorityError(.redirect(address), hiding: [Secret("st4te-1234")]))
        #expect(said.code == "access_denied")
        #expect(said.description == "No entry ‹hidden›")
        #expect(AuthorityError(.pasted("http://127.0.0.1:1/cb?code=abc&state=x"), hiding: []) == nil)
        #expect(AuthorityError(.pasted("abc"), hiding: []) == nil)
    }

    @Test func aDocumentOf100CharactersIsWhole() {
        let words = String(repeating: "word ", count: AuthorityError.documentLimit / 5 - 1) + "words"
        #expect(Self.read(500, words)?.description == words)
        #expect(Self.read(500, words + "s")?.description == words + "…")
    }

    /// It could be the beginning of a secret, which would not be recognized.
    @Test func theLastWordOfATruncatedDocumentIsDropped() throws {
        let words = "Blocked" + String(repeating: " w", count: 30)
        let end = words + " s3cret-9"
        let tag = "<p \(String(repeating: "x", count: AuthorityError.readLimit - end.utf8.count - 8))></p>"
        let document = tag + end
        #expect(document.utf8.count == AuthorityError.readLimit)
        #expect(Self.read(500, document)?.description == end)
        #expect(Self.read(500, document + "x")?.description == words)
        for (rest, secret) in [("xyz", "s3cret-9xyz"), (" w w", "w w s3cret-9 w w"), (">y", "w s3cret-9>y")] {
            let said = try #require(Self.read(500, document + rest, hiding: secret)?.description)
            #expect(said.hasPrefix("Blocked w") && words.hasPrefix(said) && said.count < words.count - 5, "\(said)")
        }
        let inTag = "<title>" + String(repeating: " ", count: AuthorityError.readLimit - 13) + "s3cret-9"
        #expect(Self.read(500, inTag, hiding: "s3cret-9")?.description == nil)
    }
}

@Suite("The secrets of a token request", .timeLimit(.minutes(5)))
struct TokenRequestSecretsTests {
    private static func secrets(
        _ body: TokenRequest.Body,
        url: String = "https://id.example.com/token",
        fields: [Injection.Field] = []
    ) throws -> Set<String> {
        let request = TokenRequest(url: try AuthorityURL(url), fields: fields, body: body)
        return Set(request.secrets.map { $0.withValue { $0 } })
    }

    @Test func inAFormTheyAreKnownByTheirNames() throws {
        let form = [
            ("grant_type", "refresh_token"), ("client_id", "my-app-0001"), ("scope", "read-all write-all"),
            ("client_secret", "abc"), ("password", "pw"), ("refresh_token", "r"), ("assertion", "a.b.c"), ("code", "c"),
            ("custom", "c0mplicated"), ("flavour", "vanilla"),
        ]
        let found = try Self.secrets(.form(form.map { TokenRequest.Parameter($0.0, $0.1) }))
        #expect(found == ["abc", "pw", "r", "a.b.c", "c", "c0mplicated"])
    }

    @Test func basicCredentialsAreTakenApart() throws {
        let value = "Basic " + Base64.encode(Array("my%20app:p%2Bw-1".utf8))
        let found = try Self.secrets(.none, fields: [Injection.Field(name: "Authorization", value: Secret(value))])
        #expect(found == [value, String(value.dropFirst(6)), "p%2Bw-1", "p+w-1"])
    }

    @Test func othersAreTakenWithAndWithoutTheirScheme() throws {
        let field = Injection.Field(name: "Authorization", value: Secret("Bearer abc"))
        let found = try Self.secrets(.none, fields: [field])
        #expect(found == ["Bearer abc", "abc"])
    }

    @Test(arguments: [
        ("application/json", #"{"login":"ada","password":"pw","more":{"key":["k"]},"n":1}"#, ["pw", "k"]),
        ("application/x-www-form-urlencoded", "user=ada&pass=p%20w", ["p w"]),
        ("text/xml", "<login><user>ada</user><pass>p4ssw0rd</pass></login>", ["p4ssw0rd"]),
    ])
    func contentsAreReadByTheirKind(_ type: String, _ content: String, _ expected: [String]) throws {
        #expect(try Self.secrets(.content(type: type, Secret(content))) == Set(expected))
    }

    @Test func theQueryIsReadToo() throws {
        let found = try Self.secrets(.none, url: "https://id.example.com/token?api_key=k&user=ada")
        #expect(found == ["k"])
    }
}
