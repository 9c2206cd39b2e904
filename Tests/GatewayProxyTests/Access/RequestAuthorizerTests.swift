import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayProxy

@Suite("Request authorizer", .timeLimit(.minutes(5)))
struct RequestAuthorizerTests {
    private static func get(_ path: String = "/open/a", _ fields: String...) -> String {
        "GET \(path) HTTP/1.1\r\nHost: localhost\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    /// The client's own token is in the other field, so that `Authorization` would go upstream.
    @Test(arguments: ["NTLM TlRMTVNTUAABAAAA", "Negotiate YII="])
    func aClientThatIsKnownMayNotAuthenticateAPooledConnectionEither(_ credentials: String) {
        let fixture = AuthorizerFixture([AuthorizerFixture.route("open")], clients: ["laptop"])
        let (own, other) = ("Proxy-Authorization: Bearer laptop-token", "Authorization: \(credentials)")
        #expect(fixture.refusal(Self.get("/open/a", own, other))?.problem.kind == .routeForbidden)
        #expect(fixture.refusal(Self.get("/open/a", own, "Authorization: Basic YTpi")) == nil)
        let open = AuthorizerFixture([AuthorizerFixture.route("open", allowsConnectionAuth: true)], clients: ["laptop"])
        #expect(open.refusal(Self.get("/open/a", own, other)) == nil)
    }

    /// Clients of GitHub send `token`, and those of Elasticsearch `ApiKey`.
    @Test(arguments: [
        "Bearer ", "bearer ", "token ", "Token ", "ApiKey ", "Bot ", "DeepL-Auth-Key ", "GenieKey ", "OAuth ", "SSWS ",
        "",
    ])
    func aTokenIsReadBehindTheSchemeThatAServiceHas(_ scheme: String) {
        let fixture = AuthorizerFixture([AuthorizerFixture.route("open")], clients: ["laptop"], requireClient: .true)
        let field = "Authorization: \(scheme)laptop-token"
        #expect(fixture.refusal(Self.get("/open/a", field)) == nil)
        #expect(fixture.refusal(Self.get("/open/a", field + "s"))?.problem.kind == .clientAuthRequired)
    }

    @Test(arguments: [
        ("Via: 1.1 authgateway", true), ("Via: 1.1 other, 1.1 authgateway (x)", true), ("Via: 1.1 other", false),
        ("Via: 1.1 authgateway-2", false), ("Via: 1.1 my-authgateway", false), ("X-Via: 1.1 authgateway", false),
    ])
    func aRequestThatComesBackIsRefused(_ field: String, _ isRefused: Bool) {
        let refusal = AuthorizerFixture([AuthorizerFixture.route("open")]).refusal(Self.get("/open/a", field))
        #expect(refusal?.problem.kind == (isRefused ? .loop : nil))
    }

    /// A route that keeps clients from its authority's endpoint forwards no field that a server may read as another path.
    @Test(arguments: [("X-Original-URL", true), ("x_rewrite_url", true), ("X-HTTP-Method-Override", false)])
    func noFieldNamesAnotherPathWhereAnEndpointIsKeptFromClients(_ field: String, _ isRefused: Bool) throws {
        let url = try AuthorityURL("https://up.example/oauth/token")
        let guarded = AuthorizerFixture.route("open", endpoints: [AuthorityEndpoint(url)])
        let request = Self.get("/open/a", "\(field): /oauth/token")
        let refusal = AuthorizerFixture([guarded]).refusal(request)
        #expect(refusal?.problem.kind == (isRefused ? .routeForbidden : nil))
        #expect(AuthorizerFixture([AuthorizerFixture.route("open")]).refusal(request) == nil)
    }

    /// Most requests have none of these fields, and are not searched for them (``FieldPresence/operation``).
    @Test(arguments: MethodOverride.fieldNames.map { String(decoding: $0, as: UTF8.self) })
    func everyFieldThatAsksForAnotherOperationIsFound(_ name: String) {
        for spelling in [name, name.uppercased(), name.replacing("-", with: "_")] {
            let isRefused = HeadText.request(["Accept: a", "\(spelling): b"]) { head, bytes in
                MethodOverride.refusal(head, bytes, route: "open") != nil
            }
            #expect(isRefused == true, "\(spelling)")
        }
    }
}
