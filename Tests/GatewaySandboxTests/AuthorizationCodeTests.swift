import Foundation
import GatewayTokens
import Testing

@testable import GatewaySandbox

/// The authorize pages of the sandbox, and what their codes are good for.
@Suite("Codes of the sandbox", .timeLimit(.minutes(5)))
struct AuthorizationCodeTests {
    // RFC 7636 appendix B.
    private static let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    private static let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    private static let redirect = "http://127.0.0.1:9/callback"

    private static let pages = [
        ("oauth", "/oauth/authorize", "/oauth/token", "sandbox-oauth-client", "sandbox-oauth-secret"),
        ("box", "/api/oauth2/authorize", "/oauth2/token", "sandbox-box-client", "sandbox-box-secret"),
    ]

    private static func query(_ client: String, _ more: String) -> String {
        "?response_type=code&client_id=\(client)&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&state=s-1"
            + "&code_challenge=\(challenge)&code_challenge_method=S256\(more)"
    }

    private func base(_ harness: Harness, _ origin: String) -> String {
        origin == "box" ? harness.sandbox.addresses.box : harness.sandbox.addresses.oauth
    }

    private func code(_ harness: Harness, _ page: String, _ client: String) async throws -> String {
        let answer = try await harness.send(.get, page + Self.query(client, "&decision=approve"))
        let parameters = try LoginParameters(try #require(answer.field("location")), expecting: Self.redirect)
        #expect(parameters["state"] == "s-1")
        return try #require(parameters["code"])
    }

    @Test(arguments: pages)
    func aCodeBuysAPairOnce(_ origin: String, _ page: String, _ token: String, _ id: String, _ secret: String)
        async throws
    {
        try await Harness.run { harness async throws in
            let base = base(harness, origin)
            let form = "grant_type=authorization_code&client_id=\(id)&client_secret=\(secret)"
            let code = try await code(harness, base + page, id)
            let wrong = try await harness.form(base + token, "\(form)&code=\(code)&code_verifier=wrong")
            #expect(wrong.string("error") == "invalid_grant")
            let whole = "\(form)&code=\(code)&code_verifier=\(Self.verifier)"
            let first = try await harness.form(base + token, whole)
            #expect(first.string("access_token") != nil)
            #expect(first.string("refresh_token") != nil)
            let second = try await harness.form(base + token, whole)
            #expect(second.string("error") == "invalid_grant")
            // A code that comes twice ends what it brought (RFC 6749 §4.1.2).
            #expect(try await harness.echo(harness.bearer(first.string("access_token"))).status == 401)
        }
    }

    @Test func thePageAsksAndDenialIsAnAnswer() async throws {
        try await Harness.run { harness async throws in
            let page = harness.sandbox.addresses.oauth + "/oauth/authorize"
            let form = try await harness.send(.get, page + Self.query("sandbox-oauth-client", ""))
            #expect(form.status == 200)
            let denied = try await harness.send(.get, page + Self.query("sandbox-oauth-client", "&decision=deny"))
            #expect(denied.field("location") == Self.redirect + "?error=access_denied&state=s-1")
            #expect(try await harness.send(.get, page + Self.query("nobody", "")).status == 400)
            let elsewhere =
                "?response_type=code&client_id=sandbox-oauth-client&redirect_uri=http%3A%2F%2Fevil.example%2F"
            #expect(try await harness.send(.get, page + elsewhere).status == 400)
        }
    }
}
