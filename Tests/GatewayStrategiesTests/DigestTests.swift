import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Digest", .timeLimit(.minutes(5)))
struct DigestTests {
    private static func session(
        _ challenge: String,
        username: String = "Mufasa",
        password: String = "Circle of Life",
        realm: String? = nil,
        algorithms: [DigestAlgorithm] = DigestAlgorithm.allCases,
        clientNonce: String = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
    ) -> DigestSession? {
        let account = UserAccount(username: username, password: Secret(password))
        let signer = DigestSigner(account: account, realm: realm, algorithms: algorithms)
        let challenges = AuthChallenge.list(Array(challenge.utf8))
        return signer.session(answering: challenges, clientNonce: clientNonce) as? DigestSession
    }

    private static func parameters(
        _ session: DigestSession?,
        _ method: String = "GET",
        _ uri: String = "/dir/index.html",
        number: UInt32 = 1
    ) throws -> [String: String] {
        let value = try #require(session).authorization(method: method, uri: Array(uri.utf8), number: number)
        let credentials = AuthChallenge.list(Array(value.utf8))
        #expect(credentials.count == 1 && credentials.first?.scheme == "digest")
        return credentials.first?.parameters ?? [:]
    }

    // MARK: The response

    private static let mufasa = """
        Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=%,\
         nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",\
         opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"
        """

    /// RFC 7616 section 3.9.1, and the same for sessions.
    @Test(arguments: [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ("MD5-sess", "e783283f46242139c486a698fec7211d"),
        ("SHA-256-sess", "2fd51b3a77ad75bad6afad6003e818d767133c46d9e2749e7f5232ae1ea3efd7"),
    ])
    func theExampleOfTheStandard(_ algorithm: String, _ response: String) throws {
        let parameters = try Self.parameters(Self.session(Self.mufasa.replacing("%", with: algorithm)))
        let expected = [
            "username": "Mufasa", "realm": "http-auth@example.org", "uri": "/dir/index.html", "algorithm": algorithm,
            "nonce": "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", "nc": "00000001", "qop": "auth",
            "cnonce": "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", "response": response,
            "opaque": "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS",
        ]
        #expect(parameters == expected)
    }

    private static let jason = """
        Digest realm="api@example.org", qop="auth", algorithm=SHA-512-256, charset=UTF-8,\
         nonce="5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK",\
         opaque="HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS"
        """

    /// RFC 7616 section 3.9.2, with the values of its erratum 4897.
    @Test(arguments: [true, false])
    func theExampleWithAHiddenNameOfTheStandard(_ isHidden: Bool) throws {
        let session = Self.session(
            Self.jason + ", userhash=\(isHidden)",
            username: "J\u{E4}s\u{F8}n Doe",
            password: "Secret, or not?",
            clientNonce: "NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v"
        )
        let value = try #require(session).authorization(method: "GET", uri: Array("/doe.json".utf8), number: 1)
        #expect(value.contains("response=\"3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5\""))
        let name =
            isHidden
            ? "username=\"793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b\","
            : "username*=UTF-8''J%C3%A4s%C3%B8n%20Doe,"
        #expect(value.hasPrefix("Digest \(name) "))
        #expect(value.hasSuffix(", userhash=true") == isHidden)
    }

    /// RFC 2617 section 3.5, and RFC 2069, whose own example is wrong.
    @Test(arguments: [
        ("qop=\"auth,auth-int\", ", "6629fae49393a05397450978507c4ef1"),
        ("", "670fd8c2df070c60b045671b8b24ff02"),
    ])
    func oldServersAreAnswered(_ qop: String, _ response: String) throws {
        let challenge = """
            Digest realm="testrealm@host.com", \(qop)nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093",\
             opaque="5ccc069c403ebaf9f0171e9517f40e41"
            """
        let session = Self.session(challenge, password: "Circle Of Life", clientNonce: "0a4f113b")
        let parameters = try Self.parameters(session)
        #expect(parameters["response"] == response)
        #expect(parameters["algorithm"] == nil)
        for name in ["qop", "nc", "cnonce"] { #expect((parameters[name] == nil) == qop.isEmpty) }
    }

    @Test func theCountAndWhatNeedsQuotesAreWrittenAsTheyAreRead() throws {
        let session = Self.session(
            #"Digest realm="a \"b\" \\ c", nonce=n, qop=AUTH, algorithm="md5""#,
            username: #"a"b\c"#,
            password: "p",
            clientNonce: "c"
        )
        let parameters = try Self.parameters(session, "POST", "/x?y=\"1\"", number: 10)
        let expected = [
            "username": #"a"b\c"#, "realm": #"a "b" \ c"#, "nonce": "n", "uri": "/x?y=\"1\"", "algorithm": "md5",
            "qop": "auth", "nc": "0000000a", "cnonce": "c", "response": "a622ae560800e20f18ad21111f538ccc",
        ]
        #expect(parameters == expected)
        #expect(try Self.parameters(session, number: .max)["nc"] == "ffffffff")
    }

    @Test func aSignedRequestNamesItsTargetAsItIsSent() throws {
        let session = try #require(Self.session("Digest realm=r, nonce=n, qop=auth"))
        let targets: [(String?, String)] = [("a=%20b&c", "/p/q?a=%20b&c"), ("", "/p/q?"), (nil, "/p/q")]
        for (query, uri) in targets {
            let request = SignableRequest(
                method: "GET",
                path: Array("/p/q".utf8),
                query: query.map { Array($0.utf8) },
                isTLS: false,
                host: "api.example.com",
                fields: [],
                added: [],
                hasBody: false,
                time: now.wall
            )
            let fields = session.sign(request, number: 1).fields
            #expect(fields.map(\.name) == ["Authorization"])
            #expect(fields.first?.value.text.contains("uri=\"\(uri)\"") == true)
        }
    }

    // MARK: Which challenge

    private static let challenges: [(String, String?)] = [
        // The strongest one, and of equals the first.
        ("Digest realm=a, nonce=n, qop=auth, Digest realm=b, nonce=n, qop=auth, algorithm=SHA-256", "b"),
        ("Digest realm=a, nonce=n, algorithm=SHA-256, Digest realm=b, nonce=n, algorithm=SHA-512-256", "a"),
        ("Digest realm=a, nonce=n, algorithm=SHA-256, Digest realm=b, nonce=n, qop=auth", "a"),
        ("Digest realm=a, nonce=n, Digest realm=b, nonce=n, qop=auth", "b"),
        ("Basic realm=a, Digest realm=b, nonce=n", "b"),
        // What cannot be answered.
        ("Digest realm=a, nonce=n, algorithm=SHA-1, Digest realm=b, nonce=n", "b"),
        ("Digest realm=a, nonce=n, qop=auth-int", nil),
        ("Digest realm=a, nonce=n, qop=\"\"", nil),
        ("Digest realm=a, nonce=n, algorithm=MD5-sess", nil),
        ("Digest realm=a, nonce=\"\", qop=auth", nil),
        ("Digest realm=a, qop=auth", nil),
        ("Digest nonce=n, qop=auth", nil),
        ("Basic realm=a", nil),
        ("", nil),
    ]

    @Test(arguments: challenges)
    func theBestChallengeIsAnswered(_ challenge: String, _ realm: String?) throws {
        let session = Self.session(challenge)
        #expect(try session.flatMap { try Self.parameters($0)["realm"] } == realm)
    }

    @Test func onlyTheRealmAndTheAlgorithmsOfTheConfigurationAreAnswered() throws {
        let both = "Digest realm=a, nonce=n, qop=auth, Digest realm=b, nonce=n, qop=auth, algorithm=SHA-256"
        #expect(try Self.parameters(Self.session(both, realm: "a"))["realm"] == "a")
        #expect(Self.session(both, realm: "A") == nil)
        #expect(try Self.parameters(Self.session(both, algorithms: [.md5]))["realm"] == "a")
        #expect(Self.session("Digest realm=a, nonce=n, qop=auth", algorithms: [.sha256]) == nil)
    }

    @Test func whatCouldNotBeRepeatedIsNotAnswered() {
        let long = String(repeating: "x", count: 2048)
        for name in ["realm", "nonce", "opaque"] {
            let others = ["realm", "nonce", "opaque"].filter { $0 != name }.map { "\($0)=x" }.joined(separator: ", ")
            #expect(Self.session("Digest \(others), \(name)=\"\(long)\"") != nil)
            for value in [long + "x", "a\u{7F}b", "a\\\u{1}b", "a\u{FFFD}"] {
                #expect(Self.session("Digest \(others), \(name)=\"\(value)\"") == nil, "\(name)")
            }
        }
        // A realm may be a name in any language, a nonce not.
        #expect(Self.session("Digest realm=\"\u{E4}\", nonce=n") != nil)
        #expect(Self.session("Digest realm=a, nonce=\"\u{E4}\"") == nil)
    }

    @Test func theServerSaysThatOnlyTheNonceIsTooOld() {
        #expect(Self.session("Digest realm=a, nonce=n, stale=TRUE")?.isStale == true)
        #expect(Self.session("Digest realm=a, nonce=n, stale=false")?.isStale == false)
        #expect(Self.session("Digest realm=a, nonce=n")?.isStale == false)
    }

    // MARK: The next nonce

    @Test(arguments: ["MD5", "SHA-256-sess"])
    func aResponseNamesTheNextNonce(_ algorithm: String) throws {
        let session = try #require(Self.session(Self.mufasa.replacing("%", with: algorithm)))
        let info = #"qop=auth, rspauth="00", cnonce="x", nc=00000001, nextnonce="abc""#
        let next = try #require(session.next(after: Array(info.utf8)) as? DigestSession)
        let parameters = try Self.parameters(next, number: 2)
        #expect(parameters["nonce"] == "abc" && parameters["nc"] == "00000002")
        // The secret of a session does not change with the nonce.
        let response =
            algorithm == "MD5"
            ? DigestAlgorithm.md5.hash(
                DigestAlgorithm.md5.hash("Mufasa", "http-auth@example.org", "Circle of Life"),
                "abc",
                "00000002",
                "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
                "auth",
                DigestAlgorithm.md5.hash("GET", "/dir/index.html")
            )
            : "f0eef3d5d45a26692b52c990dcf3f4c2fc8d1d9360df4b441309e7ced516d3cc"
        #expect(parameters["response"] == response)
        #expect(next.next(after: Array(info.utf8)) == nil, "it is the present one")
    }

    @Test(arguments: [
        "", "rspauth=\"00\"", "nextnonce=\"\"", "nextnonce=\"a\u{1}b\"", "nextnonce", "\"", "Digest nextnonce=x",
    ])
    func otherInformationChangesNothing(_ info: String) throws {
        let session = try #require(Self.session("Digest realm=a, nonce=n"))
        #expect(session.next(after: Array(info.utf8)) == nil)
    }

    // MARK: Keys

    private static let block: FixtureNode = ["username": ["env": "WHO"], "password": ["env": "PASSWORD"]]

    @Test func itSignsOnceItWasAsked() throws {
        let strategy = try decode("digest", Self.block, ["WHO": "u", "PASSWORD": "p"])
        guard case .signed(.afterChallenge(let signer)) = strategy.behavior else { throw WrongKind() }
        #expect(signer.ownedFields == ["Authorization", "Authentication-Info"])
        #expect(strategy.injectedSecret?.key == "password" && strategy.injectedSecret?.secret.text == "p")
        let own = try #require(signer as? DigestSigner)
        #expect(own.account.username == "u" && own.realm == nil && own.algorithms == DigestAlgorithm.allCases)
    }

    @Test func mistakesAreNamed() throws {
        #expect(try problems("digest", [:]) == ["missing key \"username\"", "missing key \"password\""])
        let block: FixtureNode = ["username": "a:b", "password": "p", "algorithms": ["SHA-1"]]
        #expect(
            try problems("digest", block).sorted() == [
                "algorithms: expected some of SHA-512-256, SHA-256, MD5",
                "username: must not contain \":\", which ends the user name (RFC 7617)",
            ]
        )
    }
}
