import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Strategies that never change what they send", .timeLimit(.minutes(5)))
struct StaticStrategyTests {
    @Test func noneSendsNothing() throws {
        guard case .none = try decode("none", [:]).behavior else {
            Issue.record("none has a credential")
            return
        }
    }

    @Test func noneTakesNoKeys() throws {
        #expect(try problems("none", ["token": "t"]) == ["unknown key \"token\""])
    }

    @Test(arguments: [
        ("Aladdin", "open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ("test", "123\u{A3}", "dGVzdDoxMjPCow=="),
        ("key", "", "a2V5Og=="),
        ("svc", "a:b", "c3ZjOmE6Yg=="),
    ])
    func basicJoinsAndEncodes(_ username: String, _ password: String, _ encoded: String) throws {
        let block: FixtureNode = ["username": "\(username)", "password": "\(password)", "mode": "preemptive"]
        #expect(try injection("basic", block).wire == ["Authorization: Basic \(encoded)"])
    }

    @Test func everyTextCanComeFromWhereSecretsComeFrom() throws {
        let block: FixtureNode = ["username": ["env": "WHO"], "password": ["env": "PASSWORD"]]
        let behavior = try decode("basic", block, ["WHO": "Aladdin", "PASSWORD": "open sesame"]).behavior
        guard case .fixed(let injection) = behavior else { throw WrongKind() }
        #expect(injection.wire == ["Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="])
        #expect(
            try problems("basic", block, ["PASSWORD": "p"])
                == ["username.env: the environment variable WHO is not set"]
        )
        #expect(
            try problems("basic", block, ["WHO": "a\u{7}", "PASSWORD": "p"])
                == ["username: must not contain control characters"]
        )
        #expect(
            try problems("basic", block, ["WHO": "", "PASSWORD": "p"]) == ["username: must not be empty"]
        )
    }

    @Test func anAddressCanComeFromThereToo() throws {
        let block: FixtureNode = [
            "token_url": ["env": "TOKEN_URL"], "client_id": ["env": "ID"], "client_secret": "s",
        ]
        let variables = ["TOKEN_URL": "https://id.example.com/token", "ID": "app"]
        let behavior = try decode("oauth2_client_credentials", block, variables).behavior
        guard case .token(let grant) = behavior else { throw WrongKind() }
        let wire = try request(of: grant.firstStep(holding: nil, at: now)).wire
        #expect(wire.hasPrefix("POST https://id.example.com/token"))
        #expect(wire.contains("client_id=app"))
    }

    @Test func aReferenceIsNotReadThroughAnother() throws {
        #expect(
            try problems("basic", ["username": ["env": ["env": "A"]], "password": "p"], ["A": "B", "B": "C"])
                == ["username.env: expected a scalar, found a mapping"]
        )
    }

    @Test func basicRefusesWhatItCannotSend() throws {
        #expect(
            try problems("basic", ["username": "a:b", "password": "p"])
                == ["username: must not contain \":\", which ends the user name (RFC 7617)"]
        )
        #expect(
            try problems("basic", ["username": "a\u{7}", "password": "p\n"]) == [
                "username: must not contain control characters",
                "password: the secret contains a control character, such as a line break in the middle",
            ]
        )
        #expect(try problems("basic", [:]) == ["missing key \"username\"", "missing key \"password\""])
        #expect(
            try problems("basic", ["username": "a", "password": .plain("")]) == ["\"password\" has no value"]
        )
    }

    @Test func basicCanWaitToBeAsked() throws {
        let block: FixtureNode = ["username": "a", "password": "p", "mode": "challenge", "realm": "r"]
        guard case .onChallenge(let injection, realm: let realm) = try decode("basic", block).behavior else {
            throw WrongKind()
        }
        #expect(injection.wire == ["Authorization: Basic YTpw"])
        #expect(realm == "r")
        #expect(
            try problems("basic", ["username": "a", "password": "p", "realm": "r"])
                == ["realm: is for \"mode: challenge\": without it no challenge is read"]
        )
        #expect(
            try problems("basic", ["username": "a", "password": "p", "mode": "digest"])
                == ["mode: expected one of preemptive, challenge; found \"digest\""]
        )
    }

    @Test func bearerSendsItsToken() throws {
        #expect(try injection("bearer", ["token": "abc.def"]).wire == ["Authorization: Bearer abc.def"])
    }

    @Test(arguments: [
        ("Bearer abc", "token: begins with the scheme; the gateway writes \"Bearer\" itself"),
        (" abc", "token: must be visible ASCII without a space at either end or a byte order mark"),
        ("tök", "token: must be visible ASCII without a space at either end or a byte order mark"),
        ("a\r\nX: y", "token: the secret contains a control character, such as a line break in the middle"),
        ("", "token: the secret is empty"), (" ", "token: the secret has nothing but spaces"),
    ])
    func bearerRefusesWhatIsNoToken(_ token: String, _ problem: String) throws {
        #expect(try problems("bearer", ["token": "\(token)"]) == [problem])
    }

    @Test func headerSendsWhatIsWritten() throws {
        #expect(try injection("header", ["value": "raw"]).wire == ["Authorization: raw"])
        #expect(
            try injection("header", ["scheme": "Basic", "value": "opaque-key"]).wire
                == ["Authorization: Basic opaque-key"]
        )
        #expect(try injection("header", ["name": "X-Api-Key", "value": "k 1"]).wire == ["X-Api-Key: k 1"])
        #expect(try injection("header", ["query": "api_key", "value": "k&1"]).wire == ["?api_key=k&1"])
    }

    @Test func headerWritesTheValueIntoAText() throws {
        let block: FixtureNode = ["scheme": "Token", "format": "token={{token}}", "value": "u+1"]
        #expect(try injection("header", block).wire == ["Authorization: Token token=u+1"])
        let quoted: FixtureNode = ["name": "X-Key", "format": "id=\"a\", key=\"{{token}}\"", "value": "{{token}}"]
        #expect(try injection("header", quoted).wire == ["X-Key: id=\"a\", key=\"{{token}}\""])
    }

    @Test(arguments: [
        ("token=", "format: expected visible ASCII with {{token}} once, such as \"token={{token}}\""),
        ("{{token}}{{token}}", "format: expected visible ASCII with {{token}} once, such as \"token={{token}}\""),
        (" {{token}}", "format: expected visible ASCII with {{token}} once, such as \"token={{token}}\""),
        ("{{key}}", "format: nothing is named \"{{key}}\"; known here: token"),
    ])
    func headerRefusesATextWithoutTheValue(_ format: String, _ problem: String) throws {
        #expect(try problems("header", ["format": "\(format)", "value": "v"]) == [problem])
    }

    @Test func aTextIsForAHeaderField() throws {
        #expect(
            try problems("header", ["query": "q", "format": "{{token}}", "value": "v"]) == [
                "format: belongs to a header field; with \"query\" the value is a query parameter"
            ]
        )
    }

    @Test(arguments: [
        "Host", "connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length",
        "Proxy-Authorization", "Proxy-Connection", "Expect", "Via", "Transfer_Encoding", "content_length",
    ])
    func headerLeavesTheConnectionAlone(_ name: String) throws {
        #expect(
            try problems("header", ["name": "\(name)", "value": "v"])
                == ["name: this field belongs to the connection, not to a credential"]
        )
    }

    @Test func headerRefusesInvalidNames() throws {
        #expect(
            try problems("header", ["name": ":path", "value": "v"])
                == ["name: names a pseudo-header field of HTTP/2, not a header field"]
        )
        #expect(
            try problems("header", ["name": "X Key", "value": "v"])
                == ["name: not a valid header field name"]
        )
        #expect(try problems("header", ["scheme": "a b", "value": "v"]).count == 1)
        #expect(try problems("header", ["value": " v"]).count == 1)
        #expect(try problems("header", ["scheme": "Token", "value": ""]) == ["value: the secret is empty"])
        #expect(try problems("header", ["query": "q", "name": "X-Key", "value": "v"]).count == 1)
        #expect(try problems("header", [:]) == ["missing key \"value\""])
    }

    @Test func kindsAreInAlphabeticalOrder() {
        let catalog = StrategyCatalog.builtIn
        #expect(catalog.kinds == catalog.kinds.sorted())
    }

    @Test(arguments: [
        ("/bot{{token}}", "123:AbC-d_e", "/bot123:AbC-d_e"),
        ("/bot{{token}}", "a/b?c#d%e;f g", "/bota%2Fb%3Fc%23d%25e%3Bf%20g"),
        ("/v1/{{token}}/x", "t", "/v1/t/x"), ("/{{ token }}", "\u{FC}", "/%C3%BC"),
    ])
    func aKeyCanStandInThePath(_ path: String, _ value: String, _ sent: String) throws {
        #expect(try injection("header", ["path": "\(path)", "value": "\(value)"]).wire == [sent])
    }

    @Test(arguments: [
        ("bot{{token}}", "t", "path: expected a path"), ("/bot", "t", "path: must contain {{token}} once"),
        ("/{{token}}{{token}}", "t", "path: must contain {{token}} once"),
        ("/a//{{token}}", "t", "path: expected a path"),
        ("/{{token}}/", "t", "path: expected a path"), ("/../{{token}}", "t", "path: expected a path"),
        ("/a?b={{token}}", "t", "path: expected a path"), ("/%61{{token}}", "t", "path: expected a path"),
        ("/{{key}}", "t", "path: nothing is named \"{{key}}\""),
        ("/{{token}}", "..", "value: it is empty or made of dots"),
        ("/.{{token}}", ".", "value: it is empty or made of dots"),
    ])
    func aPathThatCouldMeanAnotherIsRefused(_ path: String, _ value: String, _ words: String) throws {
        let found = try problems("header", ["path": "\(path)", "value": "\(value)"])
        #expect(found.count == 1 && found[0].hasPrefix(words), "\(found)")
    }

    @Test func aPathStandsAlone() throws {
        #expect(
            try problems("header", ["path": "/{{token}}", "value": "t", "scheme": "Bearer", "query": "q"]) == [
                "scheme: cannot be combined with \"path\": the value goes into the path",
                "query: cannot be combined with \"path\": the value goes into the path",
            ]
        )
    }
}
