import GatewayHTTP
import Testing

@testable import GatewayTokens

/// What clients ask of an authorization server whose logins are captured, and what they get.
@Suite("Captured logins", .timeLimit(.minutes(5)))
struct CapturedLoginTests {
    // MARK: Requests

    private static func read(
        _ form: String,
        at endpoint: CapturedRequest.Endpoint = .token,
        authorization: String? = nil
    ) -> Result<CapturedRequest, CaptureRefusal> {
        Result { () throws(CaptureRefusal) in
            try CapturedRequest(at: endpoint, body: Array(form.utf8), authorization: authorization, clientID: "web")
        }
    }

    @Test func aCodeIsExchangedWithoutWhatIdentifiesTheClient() throws {
        let form =
            "grant_type=authorization_code&code=c%201&redirect_uri=http%3A%2F%2F127.0.0.1%2Fcb&code_verifier=v&client_id=web"
            + "&client_secret=wrong&client_assertion=x&client_assertion_type=y&resource=a&resource=b&empty="
        guard case .exchange(let parameters) = try Self.read(form).get() else {
            Issue.record("no exchange")
            return
        }
        let expected = [
            TokenRequest.Parameter("grant_type", "authorization_code"), TokenRequest.Parameter("code", "c 1"),
            TokenRequest.Parameter("redirect_uri", "http://127.0.0.1/cb"), TokenRequest.Parameter("code_verifier", "v"),
            TokenRequest.Parameter("resource", "a"), TokenRequest.Parameter("resource", "b"),
        ]
        #expect(parameters == expected)
    }

    @Test(arguments: [
        ("grant_type=refresh_token&refresh_token=r", CaptureRefusal.otherClient),
        ("grant_type=refresh_token&refresh_token=r&client_id=other", .otherClient),
        ("grant_type=refresh_token&client_id=web", .missing("refresh_token")),
        ("grant_type=authorization_code&client_id=web", .missing("code")),
        ("client_id=web", .missing("grant_type")),
        ("grant_type=client_credentials&client_id=web", .otherGrant),
        ("grant_type=urn:ietf:params:oauth:grant-type:device_code&client_id=web", .otherGrant),
        ("grant_type=refresh_token&grant_type=authorization_code&client_id=web", .repeated),
        ("grant_type=refresh_token&client_id=web&client_id=web", .repeated),
        ("grant_type=%zz&client_id=web", .unreadable),
        ("grant_type", .unreadable),
        ("client_id=web&a=b&a=b", .repeated),
        ((0..<65).map { "p\($0)=x" }.joined(separator: "&"), .unreadable),
        (String(repeating: "a", count: CapturedRequest.maximumBody + 1), .unreadable),
    ])
    func nothingElseIsTaken(_ form: String, _ refusal: CaptureRefusal) {
        #expect(Self.read(form) == .failure(refusal))
    }

    @Test func theClientMayNameItselfInAuthorization() {
        let form = "grant_type=refresh_token&refresh_token=r"
        let basic = { (text: String) in "Basic \(Base64.encode(Array(text.utf8)))" }
        #expect(Self.read(form, authorization: basic("web:secret")) == .success(.refresh(token: Secret("r"))))
        #expect(Self.read(form, authorization: basic("we%62:")) == .success(.refresh(token: Secret("r"))))
        for other in [basic("other:secret"), basic("web"), "Bearer web", "Basic", "Basic ?"] {
            #expect(Self.read(form + "&client_id=web", authorization: other) == .failure(.otherClient))
        }
    }

    @Test func aTokenIsRevokedByItsClient() {
        #expect(Self.read("token=t&client_id=web", at: .revocation) == .success(.revoke(token: Secret("t"))))
        #expect(Self.read("client_id=web", at: .revocation) == .failure(.missing("token")))
    }

    // MARK: Phantoms

    /// Not SHA-256, but different for different bytes.
    private static func digest(_ bytes: [UInt8]) -> [UInt8] {
        var state: UInt64 = 0xCBF2_9CE4_8422_2325
        return (0..<32).map { round in
            for byte in bytes + [UInt8(round)] { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
            return UInt8(truncatingIfNeeded: state >> 32)
        }
    }

    @Test func aRefreshGivesTheSameAccessPhantomAgain() {
        let phantom = Phantom(sha256: Self.digest)
        #expect(Phantom(refresh: phantom.refresh, sha256: Self.digest) == phantom)
        #expect(Phantom(sha256: Self.digest) != phantom)
        #expect(Phantom.isRefresh(phantom.refresh) && !Phantom.isRefresh(phantom.access))
        let access = phantom.access.withValue { Array($0.utf8) }
        #expect(Phantom.isAccess(access) && access.starts(with: "\(Phantom.marks[1])".utf8))
        for other in [Array(access.dropLast()), access + [0x30], Array(access.dropLast()) + [0x47]] {
            #expect(!Phantom.isAccess(other))
        }
    }

    // MARK: Answers

    private static func answer(_ json: String, _ token: TokenSet) -> Result<String, CaptureRefusal> {
        guard let document = JSONValue(Array(json.utf8)) else { return .failure(.unreadable) }
        let phantom = Phantom(refresh: Secret("agp_r_1"), sha256: { _ in [1] })
        return Result { () throws(CaptureRefusal) in
            try CapturedAnswer.exchange(document, token, as: phantom).body.withValue(\.self)
        }
    }

    private static let token = TokenSet(
        access: Secret("real-access"),
        refreshToken: Secret("real-refresh"),
        obtainedAt: UnixTime(seconds: 0)
    )

    @Test func realTokensDoNotPass() throws {
        let json =
            #"{"access_token":"real-access","refresh_token":"real-refresh","token_type":"bearer","expires_in":3600,"scope":"a b","#
            + #""id_token":"e.y.J","refresh_token_expires_in":90,"account":{"name":"ada","copy":["x real-access"],"token":"other"},"#
            + #""bot_token":"other","hint":"real-refresh","client_secret":"s","authed_user":{"access_token":"other","id":7}}"#
        let answer = try Self.answer(json, Self.token).get()
        #expect(
            answer
                == #"{"access_token":"agp_a_01","account":{"copy":[],"name":"ada"},"authed_user":{"id":7},"expires_in":3600,"#
                + #""id_token":"e.y.J","refresh_token":"agp_r_1","refresh_token_expires_in":90,"scope":"a b","token_type":"Bearer"}"#
                + "\n"
        )
    }

    @Test func aLoginWithoutRefreshTokenGetsNone() throws {
        var token = Self.token
        token.refreshToken = nil
        let answer = try Self.answer(#"{"access_token":"real-access"}"#, token).get()
        #expect(answer == #"{"access_token":"agp_a_01","token_type":"Bearer"}"# + "\n")
    }

    @Test func aTokenThatIsBoundToAKeyIsRefused() {
        let answer = Self.answer(#"{"access_token":"real-access","token_type":"DPoP"}"#, Self.token)
        #expect(answer == .failure(.answer("has a token that is not a bearer token")))
    }

    @Test func theAccountIsThatOfTheIDToken() {
        func account(_ claims: String) -> [UInt8]? {
            CapturedAnswer.account(in: .object(["id_token": .string("h.\(Base64.encodeURL(claims.utf8)).s")]))
        }
        #expect(account(#"{"iss":"https://id","sub":"ada"}"#) == Array("https://id\u{0}ada".utf8))
        for other in [#"{"iss":"https://id"}"#, #"{"sub":7}"#, #"{"sub":"a","sub":"b"}"#, "x"] {
            #expect(account(other) == nil)
        }
        #expect(CapturedAnswer.account(in: .object([:])) == nil)
    }

    // MARK: Who has phantoms

    private static let key = CredentialKey(digest: "k")

    private static func login(_ client: String?, _ number: UInt8) -> CapturedLogins.Login {
        CapturedLogins.Login(client: client, digests: Phantom.Digests(refresh: [1, number], access: [2, number]))
    }

    @Test func aPhantomIsForItsClientAndCredential() {
        var logins = CapturedLogins()
        logins.add(Self.login("a", 1), account: nil, to: Self.key)
        #expect(logins.admits([2, 1], of: "a", to: Self.key) && logins.refreshes([1, 1], of: "a", for: Self.key))
        #expect(!logins.admits([2, 1], of: "b", to: Self.key) && !logins.admits([2, 1], of: nil, to: Self.key))
        #expect(!logins.admits([2, 1], of: "a", to: CredentialKey(digest: "other")))
        #expect(!logins.admits([1, 1], of: "a", to: Self.key), "a refresh phantom is no access phantom")
        #expect(!logins.refreshes([2, 1], of: "a", for: Self.key))
    }

    @Test func revokingEndsOneLoginOfThatClient() {
        var logins = CapturedLogins()
        for (client, number) in [("a", 1), ("a", 2), ("b", 3)] as [(String, UInt8)] {
            logins.add(Self.login(client, number), account: [7], to: Self.key)
        }
        let foreign = logins.revoke([1, 3], of: "a", for: Self.key)
        let (own, again) = (
            logins.revoke([1, 1], of: "a", for: Self.key), logins.revoke([2, 1], of: "a", for: Self.key)
        )
        #expect(!foreign && own && !again)
        #expect(!logins.admits([2, 1], of: "a", to: Self.key))
        #expect(logins.admits([2, 2], of: "a", to: Self.key) && logins.admits([2, 3], of: "b", to: Self.key))
        let (ended, endedAgain) = (logins.end(Self.key), logins.end(Self.key))
        #expect(ended && !endedAgain)
        #expect(!logins.admits([2, 3], of: "b", to: Self.key))
    }

    @Test func aCaptureIsForOneAccount() throws {
        var logins = CapturedLogins()
        logins.add(Self.login("a", 1), account: [7], to: Self.key)
        try logins.check([7], of: Self.key, for: "b")
        #expect(throws: CaptureRefusal.otherAccount) { try logins.check([8], of: Self.key, for: "a") }
        #expect(throws: CaptureRefusal.otherClientsLogin) { try logins.check(nil, of: Self.key, for: "b") }
        logins.add(Self.login("b", 2), account: [7], to: Self.key)
        #expect(logins.admits([2, 1], of: "a", to: Self.key) && logins.admits([2, 2], of: "b", to: Self.key))
    }

    @Test func aLoginOfAnUnknownAccountReplacesThoseOfItsClient() throws {
        var logins = CapturedLogins()
        logins.add(Self.login("a", 1), account: nil, to: Self.key)
        try logins.check(nil, of: Self.key, for: "a")
        logins.add(Self.login("a", 2), account: nil, to: Self.key)
        #expect(!logins.admits([2, 1], of: "a", to: Self.key) && logins.admits([2, 2], of: "a", to: Self.key))
        // It is refused before its code is spent.
        var other = logins
        #expect(throws: CaptureRefusal.otherClientsLogin) { try other.begin(exchangeFor: Self.key, by: "b") }
        #expect(throws: CaptureRefusal.otherClientsLogin) { try logins.check([7], of: Self.key, for: "b") }
    }

    @Test func oneCodeIsExchangedAtATime() throws {
        var logins = CapturedLogins()
        try logins.begin(exchangeFor: Self.key, by: "a")
        #expect(throws: CaptureRefusal.busy) { try logins.begin(exchangeFor: Self.key, by: "a") }
        try logins.begin(exchangeFor: CredentialKey(digest: "other"), by: "a")
        logins.end(exchangeFor: Self.key)
        try logins.begin(exchangeFor: Self.key, by: "b")
    }

    @Test func aLoginDoesNotOutliveAnEndDuringItsExchange() throws {
        var logins = CapturedLogins()
        try logins.begin(exchangeFor: Self.key, by: "a")
        let hadLogins = logins.end(Self.key)
        #expect(!hadLogins)
        #expect(throws: CaptureRefusal.ended) { try logins.check([7], of: Self.key, for: "a") }
        let isAdded = logins.add(Self.login("a", 1), account: [7], to: Self.key)
        #expect(!isAdded && logins.captures.isEmpty)
        // The next one is not concerned.
        logins.end(exchangeFor: Self.key)
        try logins.begin(exchangeFor: Self.key, by: "a")
        try logins.check([7], of: Self.key, for: "a")
        let isNextAdded = logins.add(Self.login("a", 2), account: [7], to: Self.key)
        #expect(isNextAdded && logins.admits([2, 2], of: "a", to: Self.key))
    }

    @Test func loginsOfOtherCredentialsAreForgotten() throws {
        let other = CredentialKey(digest: "other")
        var logins = CapturedLogins()
        for key in [Self.key, other] { logins.add(Self.login("a", 1), account: [7], to: key) }
        try logins.begin(exchangeFor: Self.key, by: "a")
        try logins.begin(exchangeFor: other, by: "a")
        logins.keepOnly([Self.key])
        #expect(logins.admits([2, 1], of: "a", to: Self.key) && !logins.admits([2, 1], of: "a", to: other))
        try logins.check([7], of: Self.key, for: "a")
        #expect(throws: CaptureRefusal.ended) { try logins.check([7], of: other, for: "a") }
    }

    @Test func loginsAreBounded() {
        var logins = CapturedLogins()
        for number in 0...UInt8(CapturedLogins.maximumPerClient) {
            logins.add(Self.login("a", number), account: [7], to: Self.key)
        }
        #expect(!logins.admits([2, 0], of: "a", to: Self.key) && logins.admits([2, 1], of: "a", to: Self.key))
        for number in 0..<CapturedLogins.maximum { logins.add(Self.login("c\(number)", 9), account: [7], to: Self.key) }
        #expect(logins.captures[Self.key]?.logins.count == CapturedLogins.maximum)
    }
}
