import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayProxy

@Suite("What answers must not hand on", .timeLimit(.minutes(5)))
struct ResponsePolicyTests {
    struct Policy: Sendable, CustomTestStringConvertible {
        let cookies: CookiePolicy
        let allowsConnectionAuth: Bool
        let hasQuery: Bool

        var testDescription: String { "cookies \(cookies), connection auth \(allowsConnectionAuth), query \(hasQuery)" }
        var policy: ResponsePolicy {
            ResponsePolicy(
                cookies: cookies,
                allowsConnectionAuth: allowsConnectionAuth,
                echo: CredentialLeakFilter(
                    of: Injection(
                        query: hasQuery ? Injection.QueryParameter(name: "key", value: Secret("s3cret/")) : nil
                    )
                )
            )
        }
        var concerned: Set<FieldKind> {
            Set(
                (cookies == .drop ? [.setCookie] : []) + (allowsConnectionAuth ? [] : [.wwwAuthenticate])
                    + (hasQuery ? [.uriReference] : [])
            )
        }
    }

    private static let policies = CookiePolicy.allCases.flatMap { cookies in
        [false, true].flatMap { allowsConnectionAuth in
            [false, true].map { hasQuery in
                Policy(cookies: cookies, allowsConnectionAuth: allowsConnectionAuth, hasQuery: hasQuery)
            }
        }
    }

    private static let kinds = (UInt8.min...UInt8.max).compactMap(FieldKind.init(rawValue:))

    private static func rewrite(_ policy: ResponsePolicy, _ kind: FieldKind, _ value: String) -> String {
        switch policy.rewrite(kind, Array(value.utf8)) {
        case .unchanged: "unchanged"
        case .dropped: "dropped"
        case .replaced(let bytes): String(decoding: bytes, as: UTF8.self)
        }
    }

    /// Each has a bit of its own.
    @Test func thereAreFewKinds() { #expect((20..<64).contains(Self.kinds.count)) }

    @Test(arguments: policies)
    func fieldsOfOtherKindsPassUnread(_ policy: Policy) {
        // Whatever stands in them.
        let value = "NTLM, Negotiate; key=s3cret%2F"
        for kind in Self.kinds {
            let isConcerned = policy.concerned.contains(kind)
            #expect(policy.policy.concerns(kind) == isConcerned, "\(kind)")
            #expect((Self.rewrite(policy.policy, kind, value) != "unchanged") == isConcerned, "\(kind)")
        }
    }

    @Test(arguments: policies)
    func aFieldWithNothingInItStaysAsItIs(_ policy: Policy) {
        for kind in Self.kinds where kind != .setCookie || policy.cookies == .pass {
            #expect(Self.rewrite(policy.policy, kind, "Basic realm=\"x\"") == "unchanged", "\(kind)")
            #expect(Self.rewrite(policy.policy, kind, "") == "unchanged", "\(kind)")
        }
    }

    @Test func withoutASettingOnlyChallengesAreLookedAt() {
        #expect(Self.kinds.filter { ResponsePolicy().concerns($0) } == [.wwwAuthenticate])
    }

    @Test(arguments: ["a=b", "", "a=b; Path=/; HttpOnly"])
    func cookiesAreDroppedWhole(_ value: String) {
        #expect(Self.rewrite(ResponsePolicy(cookies: .drop), .setCookie, value) == "dropped")
        #expect(Self.rewrite(ResponsePolicy(cookies: .pass), .setCookie, value) == "unchanged")
    }

    @Test(arguments: [
        ("NTLM", "dropped"), ("Negotiate YII=", "dropped"), ("negotiate, ntlm", "dropped"),
        ("Negotiate, Basic realm=\"x\"", "Basic realm=\"x\""),
        ("Bearer error=\"invalid_token\", NTLM", "Bearer error=\"invalid_token\""),
        ("Basic realm=\"NTLM\"", "unchanged"), ("Bearer", "unchanged"),
    ])
    func challengesThatAuthenticateAConnectionAreTakenOut(_ value: String, _ expected: String) {
        #expect(Self.rewrite(ResponsePolicy(), .wwwAuthenticate, value) == expected)
        let open = ResponsePolicy(cookies: .drop, allowsConnectionAuth: true)
        #expect(Self.rewrite(open, .wwwAuthenticate, value) == "unchanged")
        #expect(Self.rewrite(ResponsePolicy(cookies: .drop), .setCookie, value) == "dropped")
    }

    @Test(arguments: [
        ("/a?key=s3cret%2F", "/a"), ("/a?b=1&KEY=S3CRET/&c=2", "/a?b=1&c=2"), ("/a?b=s3cret/", "dropped"),
        ("/a?key=other", "unchanged"), ("5; url=/a?key=s3cret/", "5; url=/a"),
    ])
    func theInjectedCredentialIsTakenOutOfURIs(_ value: String, _ expected: String) {
        let parameter = Injection.QueryParameter(name: "key", value: Secret("s3cret/"))
        #expect(
            Self.rewrite(
                ResponsePolicy(echo: CredentialLeakFilter(of: Injection(query: parameter))),
                .uriReference,
                value
            )
                == expected
        )
        #expect(Self.rewrite(ResponsePolicy(), .uriReference, value) == "unchanged")
    }
}
