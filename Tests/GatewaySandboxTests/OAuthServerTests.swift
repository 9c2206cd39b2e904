import GatewaySandbox
import Testing

@Suite(.timeLimit(.minutes(5)))
struct OAuthServerTests {
    @Test func clientCredentialsInTheFormBringAToken() async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.oauthToken("grant_type=client_credentials&scope=read")
            #expect(answer.status == 200)
            #expect(answer.string("scope") == "read")
            #expect(answer.field("cache-control") == "no-store")
            #expect(try await harness.echo(harness.bearer(answer.string("access_token"))).status == 200)
        }
    }

    @Test func clientCredentialsInAnAuthorizationFieldBringAToken() async throws {
        try await Harness.run { harness async throws in
            let url = harness.sandbox.addresses.oauth + "/oauth/token"
            let grant = "grant_type=client_credentials"
            // odd-client:o%2Bd+%26s%3De%25cret%2F%C3%A9
            let good = "Basic b2RkLWNsaWVudDpvJTJCZCslMjZzJTNEZSUyNWNyZXQlMkYlQzMlQTk="
            #expect(try await harness.form(url, grant, [("Authorization", good)]).status == 200)
            let refused = try await harness.form(url, grant, [("Authorization", "Basic YTpi")])
            #expect(refused.status == 401)
            #expect(refused.string("error") == "invalid_client")
            #expect(refused.field("www-authenticate")?.hasPrefix("Basic") == true)
            let twice = try await harness.form(url, grant + "&client_secret=x", [("Authorization", good)])
            #expect(twice.string("error") == "invalid_request")
        }
    }

    @Test(arguments: [
        ("grant_type=client_credentials&scope=admin", "invalid_scope"),
        ("grant_type=password", "invalid_grant"),
        ("grant_type=password&username=sandbox-person&password=wrong", "invalid_grant"),
        ("grant_type=password&username=sandbox-person&password=sandbox-passphrase&scope=admin", "invalid_scope"),
        ("grant_type=implicit", "unsupported_grant_type"),
        ("grant_type=refresh_token", "invalid_request"),
        ("grant_type=refresh_token&refresh_token=nonsense", "invalid_grant"),
    ])
    func aBadRequestIsRefused(form: String, error: String) async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.oauthToken(form)
            #expect(answer.status == 400)
            #expect(answer.string("error") == error)
        }
    }

    @Test func aPasswordBringsAPairThatRotates() async throws {
        try await Harness.run { harness async throws in
            let user = harness.environment("OAUTH_USER")
            let login = "grant_type=password&username=\(user)&password=\(harness.environment("OAUTH_PASSWORD"))"
            let first = try await harness.oauthToken(login)
            #expect(try await harness.echo(harness.bearer(first.string("access_token"))).status == 200)
            let refresh = "grant_type=refresh_token&refresh_token=\(first.string("refresh_token") ?? "")"
            #expect(try await harness.oauthToken(refresh).status == 200)
            #expect(try await harness.oauthToken(refresh).string("error") == "invalid_grant")
            let second = try await harness.oauthToken(login)
            #expect(second.status == 200)
            #expect(try await harness.echo(harness.bearer(second.string("access_token"))).status == 200)
        }
    }

    @Test func theReuseOfARefreshTokenEndsTheWholeFamily() async throws {
        try await Harness.run { harness async throws in
            let seed = harness.environment("OAUTH_REFRESH_TOKEN")
            let first = try await harness.oauthToken("grant_type=refresh_token&refresh_token=\(seed)")
            #expect(first.status == 200)
            #expect(try await harness.echo(harness.bearer(first.string("access_token"))).status == 200)
            let reused = try await harness.oauthToken("grant_type=refresh_token&refresh_token=\(seed)")
            #expect(reused.string("error") == "invalid_grant")
            #expect(try await harness.echo(harness.bearer(first.string("access_token"))).status == 401)
            let next = first.string("refresh_token") ?? ""
            #expect(try await harness.oauthToken("grant_type=refresh_token&refresh_token=\(next)").status == 400)
            #expect(try await harness.count(of: "double_spends.oauth") == 1)
        }
    }

    @Test func withoutRotationTheRefreshTokenStays() async throws {
        try await Harness.run { harness async throws in
            try await harness.steer(harness.sandbox.addresses.oauth, #"{"rotate": false}"#)
            let form = "grant_type=refresh_token&refresh_token=\(harness.environment("OAUTH_REFRESH_TOKEN"))"
            #expect(try await harness.oauthToken(form)["refresh_token"] == nil)
            #expect(try await harness.oauthToken(form).status == 200)
        }
    }

    @Test func aRevokedTokenIsRejected() async throws {
        try await Harness.run { harness async throws in
            let token = try await harness.oauthToken().string("access_token") ?? ""
            let answer = try await harness.form(
                harness.sandbox.addresses.oauth + "/oauth/revoke",
                "client_id=sandbox-oauth-client&client_secret=sandbox-oauth-secret&token=\(token)"
            )
            #expect(answer.status == 200)
            let rejected = try await harness.echo(harness.bearer(token))
            #expect(rejected.status == 401)
            #expect(rejected.field("www-authenticate")?.contains(#"error="invalid_token""#) == true)
        }
    }

    @Test func metadataNamesTheEndpoints() async throws {
        try await Harness.run { harness async throws in
            let base = harness.sandbox.addresses.oauth
            let answer = try await harness.send(.get, base + "/.well-known/oauth-authorization-server")
            #expect(answer.string("issuer") == base)
            #expect(answer.string("token_endpoint") == base + "/oauth/token")
        }
    }
}
