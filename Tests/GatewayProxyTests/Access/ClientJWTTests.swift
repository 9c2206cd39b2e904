import GatewayConfiguration
import GatewayHTTP
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

@Suite("Signed tokens of clients", .timeLimit(.minutes(1)))
struct ClientJWTTests {
    private typealias Client = AccessPlan.Client

    private static let now = UnixTime(seconds: 1_000_000)
    private static let url = "https://issuer.example/jwks"

    /// The signature of a token is the id of the key that has signed it.
    private static let keySet = """
        {"keys": [{"kty": "EC", "crv": "P-256", "kid": "k1", "x": "\(Base64.encodeURL([UInt8](repeating: 1, count: 32)))",
        "y": "\(Base64.encodeURL([UInt8](repeating: 2, count: 32)))"}]}
        """

    private static func set(_ text: String = keySet) -> JSONWebKeySet? { JSONWebKeySet(Array(text.utf8)) }

    private static func token(
        _ changes: [String: JSONValue?] = [:],
        head: [String: JSONValue] = ["alg": .string("ES256"), "kid": .string("k1")],
        signature: String = "k1"
    ) -> String {
        var claims: [String: JSONValue] = [
            "iss": .string("https://issuer.example"), "aud": .string("gateway"), "sub": .string("ci"),
            "exp": .number(1_000_600),
        ]
        for (name, value) in changes { claims[name] = value }
        let parts = [head, claims].map { Base64.encodeURL((try? JSONValue.object($0).bytes()) ?? []) }
        return (parts + [Base64.encodeURL(signature.utf8)]).joined(separator: ".")
    }

    private static func plan(
        subject: String? = "ci",
        claims: [String: String] = [:],
        keys: ClientJWTPlan.Keys? = nil
    ) -> ClientJWTPlan? {
        guard let keys = keys ?? set().map({ .set($0) }) else { return nil }
        return ClientJWTPlan(
            issuer: "https://issuer.example",
            audience: "gateway",
            keys: keys,
            subject: subject,
            claims: claims
        )
    }

    /// What counts how often a signature is looked at.
    private final class Signatures: Sendable {
        private let seen = Atomic<Int>(0)
        var count: Int { seen.load(ordering: .relaxed) }
        func check(_ signature: [UInt8], _ key: JSONWebKey) -> Bool {
            seen.add(1, ordering: .relaxed)
            return signature == Array((key.id ?? "").utf8)
        }
    }

    private final class Time: Sendable {
        let now = Mutex(ClientJWTTests.now)
    }

    private static func authenticator(
        _ clients: [AccessPlan.Client],
        sets: ClientKeySets = ClientKeySets(),
        signatures: Signatures = Signatures(),
        time: Time = Time()
    ) -> ClientAuthenticator {
        let parts = ClientJWTParts(
            keySets: sets,
            verify: { signature, _, _, key in signatures.check(signature, key) },
            now: { time.now.withLock { $0 } }
        )
        return ClientAuthenticator(clients, jwts: parts, sha256: { $0 })
    }

    private static func name(_ token: String, _ authenticator: ClientAuthenticator) -> String {
        let evidence = authenticator.evidence(of: [Array(token.utf8)])
        return evidence.isContradictory ? "several" : evidence.client ?? "none"
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var changes: [String: JSONValue?] = [:]
        var head: [String: JSONValue] = ["alg": .string("ES256"), "kid": .string("k1")]
        var signature = "k1"
        var isValid = false
    }

    @Test(arguments: [
        Case(testDescription: "valid", isValid: true),
        Case(
            testDescription: "a list of audiences",
            changes: ["aud": .array([.string("x"), .string("gateway")])],
            isValid: true
        ),
        Case(testDescription: "no kid", head: ["alg": .string("ES256")], isValid: true),
        Case(testDescription: "ended within the leeway", changes: ["exp": .number(999_941)], isValid: true),
        Case(testDescription: "begins within the leeway", changes: ["nbf": .number(1_000_060)], isValid: true),
        Case(testDescription: "ended", changes: ["exp": .number(999_940)]),
        Case(testDescription: "no end", changes: ["exp": nil as JSONValue?]),
        Case(testDescription: "an end that is a text", changes: ["exp": .string("1000600")]),
        Case(testDescription: "begins later", changes: ["nbf": .number(1_000_061)]),
        Case(testDescription: "issued later", changes: ["iat": .number(1_000_061)]),
        Case(testDescription: "a beginning that is a text", changes: ["nbf": .string("0")]),
        Case(testDescription: "another issuer", changes: ["iss": .string("https://issuer.example/")]),
        Case(testDescription: "another audience", changes: ["aud": .string("gateway2")]),
        Case(testDescription: "no audience", changes: ["aud": nil as JSONValue?]),
        Case(testDescription: "another subject", changes: ["sub": .string("ci2")]),
        Case(testDescription: "no subject", changes: ["sub": nil as JSONValue?]),
        Case(testDescription: "another signature", signature: "k2"),
        Case(testDescription: "no signature", signature: ""),
        Case(testDescription: "none", head: ["alg": .string("none")]),
        Case(testDescription: "HS256", head: ["alg": .string("HS256"), "kid": .string("k1")]),
        Case(testDescription: "an algorithm of another key", head: ["alg": .string("RS256"), "kid": .string("k1")]),
        Case(testDescription: "another key", head: ["alg": .string("ES256"), "kid": .string("k2")]),
        Case(testDescription: "a kid that is a number", head: ["alg": .string("ES256"), "kid": .number(1)]),
        Case(testDescription: "crit", head: ["alg": .string("ES256"), "crit": .array([.string("x")])]),
    ])
    func aTokenProvesItsClientOnlyIfAllOfItIsRight(_ test: Case) throws {
        let client = Client(name: "ci", tokens: [], jwt: Self.plan())
        let token = Self.token(test.changes, head: test.head, signature: test.signature)
        #expect(Self.name(token, Self.authenticator([client])) == (test.isValid ? "ci" : "none"))
    }

    struct Written: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var head = #"{"alg": "ES256", "kid": "k1"}"#
        var claims = #"{"iss": "https://issuer.example", "aud": "gateway", "sub": "ci", "exp": 1000600}"#
        /// Of the encoded parts.
        var change: @Sendable (String) -> String = { $0 }
        var isValid = false

        func with(_ more: String) -> Written {
            var written = self
            written.claims = claims.replacing("}", with: ", \(more)}")
            return written
        }
    }

    /// As no library writes them: another reader of the token could see another client.
    @Test(arguments: [
        Written(testDescription: "plain", isValid: true),
        Written(testDescription: "other claims", isValid: true).with(
            #""jti": "1", "x": {"sub": 1}, "y": [{"a": 1}, {"a": ":"}]"#
        ),
        Written(testDescription: "two subjects").with(#""sub": "ci""#),
        Written(testDescription: "two subjects, one escaped").with(#""s\u0075b": "ci""#),
        Written(testDescription: "two of a claim that nobody asks for").with(#""x": 1, "x": 1"#),
        Written(testDescription: "two of a claim within a claim").with(#""x": [{"a": 1, "a": 2}]"#),
        Written(testDescription: "two algorithms", head: #"{"alg": "none", "alg": "ES256"}"#),
        Written(testDescription: "a jti that is a number").with(#""jti": 1"#),
        Written(testDescription: "a jti that is null").with(#""jti": null"#),
        Written(testDescription: "padding", change: { $0 + "=" }),
        Written(testDescription: "more padding", change: { $0 + "====" }),
        Written(testDescription: "padding within", change: { "=" + $0 }),
        Written(testDescription: "a head that is a list", head: #"["ES256"]"#),
    ])
    func aTokenHasOneReading(_ written: Written) {
        let client = Client(name: "ci", tokens: [], jwt: Self.plan())
        var parts = [written.head, written.claims, "k1"].map { Base64.encodeURL($0.utf8) }
        for index in parts.indices {
            var changed = parts
            changed[index] = written.change(parts[index])
            let name = Self.name(changed.joined(separator: "."), Self.authenticator([client]))
            #expect(name == (written.isValid ? "ci" : "none"))
        }
        // The last two bits of this spelling mean nothing.
        parts[2] = "azF"
        #expect(Self.name(parts.joined(separator: "."), Self.authenticator([client])) == "none")
    }

    @Test(arguments: ["iss", "sub", "jti"])
    func aNameIsAString(_ claim: String) {
        let client = Client(name: "app", tokens: [], jwt: Self.plan(subject: nil, claims: ["repo": "a", claim: "x"]))
        let values: [(JSONValue, Bool)] = [
            (.string("x"), claim != "iss"), (.array([.string("x")]), false), (.number(1), false), (.null, false),
        ]
        for (value, isValid) in values {
            let name = Self.name(
                Self.token(["repo": .array([.string("a")]), claim: value]),
                Self.authenticator([client])
            )
            #expect(name == (isValid ? "app" : "none"), "\(value)")
        }
    }

    @Test(arguments: [
        ("team/x", true), ("team/x/y", true), ("team/..x", true), ("team/x..", true), ("team/...", true),
        ("team//x", true),
        ("team/", false), ("team", false), ("team/..", false), ("team/../x", false), ("team/x/../../y", false),
        ("team/.", false), ("team/x/.", false), ("team/%2e%2e/x", false), ("team/.%2E", false),
        ("team/%252e%252e", false),
        ("team/x%2f..%2fy", false), ("team/x\\..\\y", false), ("team/..;v=1/x", false), ("te\u{301}am/x", false),
    ])
    func aSubjectBelowAnotherLeadsNowhereElse(_ subject: String, _ isBelow: Bool) {
        let client = Client(name: "team", tokens: [], jwt: Self.plan(subject: "team/*"))
        #expect(
            Self.name(Self.token(["sub": .string(subject)]), Self.authenticator([client]))
                == (isBelow ? "team" : "none")
        )
        let name = CertificateName("spiffe://example.org/team/*")
        let uri = PeerIdentity.Name.uri("spiffe://example.org/\(subject)")
        #expect(name?.matches(uri) == isBelow)
    }

    @Test func aSubjectIsComparedByItsBytes() {
        let client = Client(name: "ci", tokens: [], jwt: Self.plan(subject: "caf\u{E9}", claims: ["repo": "caf\u{E9}"]))
        let (composed, combined) = (JSONValue.string("caf\u{E9}"), JSONValue.string("cafe\u{301}"))
        for (sub, repo, name) in [
            (composed, composed, "ci"), (combined, composed, "none"), (composed, combined, "none"),
        ] {
            #expect(Self.name(Self.token(["sub": sub, "repo": repo]), Self.authenticator([client])) == name)
        }
    }

    @Test func claimsAndSubjectsTellClientsApart() throws {
        let clients = [
            Client(name: "app", tokens: [], jwt: Self.plan(subject: nil, claims: ["repo": "a/app"])),
            Client(name: "team", tokens: [], jwt: Self.plan(subject: "team/*")),
        ]
        let authenticator = Self.authenticator(clients)
        #expect(Self.name(Self.token(["repo": .string("a/app")]), authenticator) == "app")
        #expect(Self.name(Self.token(["repo": .array([.string("a/app")])]), authenticator) == "app")
        #expect(Self.name(Self.token(["repo": .string("a/app2")]), authenticator) == "none")
        #expect(Self.name(Self.token(["sub": .string("team/x")]), authenticator) == "team")
        #expect(Self.name(Self.token(["sub": .string("team/")]), authenticator) == "none")
        #expect(
            Self.name(Self.token(["sub": .string("team/x"), "repo": .string("a/app")]), authenticator) == "several"
        )
    }

    @Test func aSignatureIsVerifiedOnceUntilTheTokenEnds() throws {
        let (signatures, time) = (Signatures(), Time())
        let client = Client(name: "ci", tokens: [], jwt: Self.plan())
        let authenticator = Self.authenticator([client], signatures: signatures, time: time)
        for _ in 0..<3 { #expect(Self.name(Self.token(), authenticator) == "ci") }
        #expect(signatures.count == 1)
        time.now.withLock { $0 = UnixTime(seconds: 1_000_660) }
        #expect(Self.name(Self.token(), authenticator) == "none")
        #expect(signatures.count == 1)
    }

    // MARK: Keys of a URL

    @Test func withoutKeysNothingIsValid() throws {
        let (sets, url) = (ClientKeySets(), try AuthorityURL(Self.url))
        let client = Client(name: "ci", tokens: [], jwt: Self.plan(keys: .url(url)))
        let authenticator = Self.authenticator([client], sets: sets)
        #expect(Self.name(Self.token(), authenticator) == "none")
        #expect(sets.due(among: [url], at: MonotonicTime(nanoseconds: 0)) == [url])
        sets.take(try #require(Self.set()), from: url, at: MonotonicTime(nanoseconds: 0))
        #expect(Self.name(Self.token(), authenticator) == "ci")
    }

    @Test func aKeyThatIsGoneProvesNobodyAnyMore() throws {
        let (sets, url) = (ClientKeySets(), try AuthorityURL(Self.url))
        let start = MonotonicTime(nanoseconds: 0)
        let client = Client(name: "ci", tokens: [], jwt: Self.plan(keys: .url(url)))
        let authenticator = Self.authenticator([client], sets: sets)
        _ = sets.due(among: [url], at: start)
        sets.take(try #require(Self.set()), from: url, at: start)
        #expect(Self.name(Self.token(), authenticator) == "ci")
        let other = try #require(Self.set(Self.keySet.replacing("k1", with: "k2")))
        sets.take(other, from: url, at: start)
        #expect(Self.name(Self.token(), authenticator) == "none")
    }

    @Test func anUnknownKeyIsAskedForOnceAMinute() throws {
        let (sets, url) = (ClientKeySets(), try AuthorityURL(Self.url))
        let client = Client(name: "ci", tokens: [], jwt: Self.plan(keys: .url(url)))
        let authenticator = Self.authenticator([client], sets: sets)
        func isDue(_ seconds: Int64) -> Bool {
            !sets.due(among: [url], at: MonotonicTime(nanoseconds: seconds * 1_000_000_000)).isEmpty
        }
        #expect(isDue(0))
        sets.take(try #require(Self.set()), from: url, at: MonotonicTime(nanoseconds: 0))
        #expect(!isDue(61))
        let unknown = Self.token(head: ["alg": .string("ES256"), "kid": .string("k9")], signature: "k9")
        #expect(Self.name(unknown, authenticator) == "none")
        #expect(!isDue(59) && isDue(60) && !isDue(61))
        #expect(Self.name(unknown, authenticator) == "none")
        #expect(!isDue(119) && isDue(120))
    }

    @Test func keysStayWhileTheIssuerIsAway() throws {
        let (sets, url) = (ClientKeySets(), try AuthorityURL(Self.url))
        let client = Client(name: "ci", tokens: [], jwt: Self.plan(keys: .url(url)))
        let authenticator = Self.authenticator([client], sets: sets)
        func time(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }
        #expect(sets.due(among: [url], at: time(0)) == [url])
        #expect(sets.fail(url, at: time(0)))
        #expect(sets.due(among: [url], at: time(4)).isEmpty && sets.due(among: [url], at: time(5)) == [url])
        #expect(!sets.fail(url, at: time(5)))
        sets.take(try #require(Self.set()), from: url, at: time(15))
        #expect(sets.due(among: [url], at: time(614)).isEmpty && sets.due(among: [url], at: time(615)) == [url])
        #expect(sets.fail(url, at: time(615)))
        #expect(Self.name(Self.token(), authenticator) == "ci")
    }

    // MARK: Key sets

    @Test(arguments: [
        "", "[]", "{}", #"{"keys": {}}"#, #"{"keys": []}"#, #"{"keys": [{"kty": "oct", "k": "AAAA"}]}"#,
        #"{"keys": [{"kty": "RSA", "n": "AAAA", "e": "AQAB"}]}"#,
        #"{"keys": [{"kty": "EC", "crv": "P-384", "x": "A", "y": "A"}]}"#,
    ])
    func whatVerifiesNothingIsNoKeySet(_ text: String) { #expect(Self.set(text) == nil) }

    @Test func aKeyForEncryptionOrAnotherAlgorithmVerifiesNothing() throws {
        let encryption = Self.keySet.replacing("\"kid\"", with: "\"use\": \"enc\", \"kid\"")
        #expect(Self.set(encryption) == nil)
        let other = try #require(Self.set(Self.keySet.replacing("\"kid\"", with: "\"alg\": \"ECDH-ES\", \"kid\"")))
        let client = Client(name: "ci", tokens: [], jwt: Self.plan(keys: .set(other)))
        #expect(Self.name(Self.token(), Self.authenticator([client])) == "none")
    }
}
