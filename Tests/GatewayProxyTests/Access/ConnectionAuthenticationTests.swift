import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Schemes that authenticate a connection", .timeLimit(.minutes(5)))
struct ConnectionAuthenticationTests {
    private static func rewrite(_ value: String) -> String {
        switch ConnectionAuthentication.rewrite(challenges: Array(value.utf8)) {
        case .unchanged: "unchanged"
        case .dropped: "dropped"
        case .replaced(let bytes): String(decoding: bytes, as: UTF8.self)
        }
    }

    @Test(arguments: [
        "", "Basic realm=\"x\"", "Bearer, Digest nonce=a", "Basic realm=\"NTLM\"", "Basic realm=\"a, Negotiate\"",
        "Digest qop=\"auth\", realm=\"Kerberos\"", "NTLMv3 a=b", "X-Negotiate", "Bearer negotiate",
        // Not well formed, and names none of them.
        "Basic realm=\"open", "Basic realm=a b=c =",
    ])
    func otherChallengesStayAsTheyAre(_ value: String) { #expect(Self.rewrite(value) == "unchanged") }

    @Test(arguments: [
        ("Negotiate, Basic realm=\"x\"", "Basic realm=\"x\""),
        ("Basic realm=\"x\", NTLM", "Basic realm=\"x\""),
        ("NTLM TlRM/+a==, Basic realm=\"a, NTLM\", charset=\"U\"", "Basic realm=\"a, NTLM\", charset=\"U\""),
        ("Basic realm=a, nEgOtIaTe YII=, Bearer scope=\"s\", kerberos", "Basic realm=a, Bearer scope=\"s\""),
        (" , Negotiate ,, Digest realm = \"x\" , nonce=y, NTLM ,", "Digest realm = \"x\" , nonce=y"),
        ("Negotiate realm=\"n\", x=y, Basic", "Basic"),
        // A space where a comma was meant.
        ("Basic realm=a Negotiate", "Basic realm=a"),
    ])
    func theirChallengesAreTakenOut(_ value: String, _ expected: String) { #expect(Self.rewrite(value) == expected) }

    @Test(arguments: [
        "Negotiate", "NTLM", "ntlm TlRMTVNTUAAC==", "Negotiate, NTLM", "Kerberos", "CredSSP", "Nego2",
        // Not well formed: a client might find the scheme in it all the same.
        "Basic realm=\"open, Negotiate", "Negotiate:PKU2U", "Negotiate \"x", "Basic realm=@, NTLM", "=, NTLM",
        "Basic realm=a, Negotiate=", "Basic realm=a, NTLM=b", "(NTLM)", "Basic realm=\"NTLM",
    ])
    func theFieldIsDroppedWhereNothingElseIsSure(_ value: String) { #expect(Self.rewrite(value) == "dropped") }

    @Test(arguments: [
        ("NTLM TlRMTVNTUAAB", true), ("Negotiate YII=", true), ("negotiate", true), ("KERBEROS x", true),
        ("Basic eDp5, NTLM TlRM", true), (",NTLM x", true), ("\"\" Negotiate x", true), ("Negotiate:x", true),
        ("Basic eDp5", false), ("Bearer NTLM", false), ("Bearer ntlm.negotiate", false), ("NTLMx", false), ("", false),
        ("Digest username=\"NTLM\", realm=\"Negotiate x\"", false), ("any-key", false),
    ])
    func credentialsAreRecognized(_ value: String, _ isUsed: Bool) {
        #expect(ConnectionAuthentication.isUsed(by: Array(value.utf8)) == isUsed)
    }

    // MARK: Requests

    private static let fixture = AuthorizerFixture([
        AuthorizerFixture.route("open"), AuthorizerFixture.route("own", allowsConnectionAuth: true),
        AuthorizerFixture.route("signed", credential: 0),
        AuthorizerFixture.route("removing", headers: RoutePlan.Headers(remove: ["Authorization"])),
    ])

    @Test(arguments: [
        ("open", "Authorization: NTLM TlRM", true), ("open", "Authorization: Negotiate YII=", true),
        ("open", "Proxy-Authorization: Kerberos x", true), ("open", "Authorization: Basic eDp5", false),
        ("open", "X-Authorization: NTLM TlRM", false),
        ("open", "X: 1\r\nAuthorization: a\r\nauthorization: NTLM x", true),
        ("own", "Authorization: NTLM TlRM", false),
        // Nothing of it is forwarded.
        ("signed", "Authorization: NTLM TlRM", false), ("removing", "Authorization: NTLM TlRM", false),
    ])
    func requestsAreRefusedWhereTheFieldWouldBeForwarded(_ route: String, _ field: String, _ isRefused: Bool) {
        let refusal = Self.fixture.refusal("GET /\(route) HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n\r\n")
        #expect((refusal != nil) == isRefused)
        guard let refusal else { return }
        #expect(refusal.problem.kind == .routeForbidden)
        #expect(refusal.problem.detail.contains("routes.open.connection_auth: true"))
    }

    @Test func theTokenOfAClientIsNoSuchCredential() {
        let fixture = AuthorizerFixture([AuthorizerFixture.route("open")], clients: ["ntlm"])
        let request = "GET /open HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ntlm-token\r\n\r\n"
        #expect(fixture.refusal(request) == nil)
    }
}
