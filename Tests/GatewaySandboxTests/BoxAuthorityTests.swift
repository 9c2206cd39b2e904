import GatewayHTTP
import GatewaySandbox
import Testing

@Suite(.timeLimit(.minutes(5)))
struct BoxAuthorityTests {
    @Test func clientCredentialsBringATokenThatTheAPIAccepts() async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.boxToken()
            #expect(answer.status == 200)
            #expect(answer.string("token_type") == "bearer")
            #expect(answer["expires_in"] == .number(3600))
            #expect(answer["restricted_to"] == .array([]))
            #expect(answer["refresh_token"] == nil)
            let me = try await harness.me(answer.string("access_token"))
            #expect(me.status == 200)
            #expect(me.string("id") == "3000001")
            #expect(me.field("BOX-REQUEST-ID")?.isEmpty == false)
            #expect(try await harness.count(of: "token_calls.box") == 1)
            #expect(try await harness.count(of: "token_calls_by_grant.box.client_credentials.sandbox-box-client") == 1)
        }
    }

    @Test func aUserSubjectSpeaksAsThatUser() async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.boxToken("user:2000001")
            #expect(try await harness.me(answer.string("access_token")).string("id") == "2000001")
        }
    }

    @Test(arguments: [
        ("grant_type=client_credentials&client_id=sandbox-box-client&client_secret=wrong", "invalid_client"),
        ("client_id=sandbox-box-client", "invalid_request"),
        ("grant_type=client_credentials&grant_type=x", "invalid_request"),
        ("grant_type=client_credentials&client_secret=a%2", "invalid_request"),
        ("grant_type=password&client_id=sandbox-box-client&client_secret=sandbox-box-secret", "unauthorized_client"),
        (
            "grant_type=client_credentials&client_id=sandbox-box-client&client_secret=sandbox-box-secret"
                + "&box_subject_type=user&box_subject_id=1", "invalid_grant"
        ),
    ])
    func aBadRequestIsRefusedInTheShapeOfBox(form: String, error: String) async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.form(harness.sandbox.addresses.box + "/oauth2/token", form)
            #expect(answer.status == 400)
            #expect(answer.string("error") == error)
            #expect(answer.string("error_description")?.isEmpty == false)
        }
    }

    @Test func clientCredentialsInAnAuthorizationFieldAreNotRead() async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.form(
                harness.sandbox.addresses.box + "/oauth2/token",
                "grant_type=client_credentials&box_subject_type=enterprise&box_subject_id=1000001",
                [("Authorization", "Basic c2FuZGJveC1ib3gtY2xpZW50OnNhbmRib3gtYm94LXNlY3JldA==")]
            )
            #expect(answer.status == 400)
            #expect(answer.string("error") == "invalid_client")
        }
    }

    @Test func aSecretOfOddCharactersWorksWhenItIsEscaped() async throws {
        try await Harness.run { harness async throws in
            let url = harness.sandbox.addresses.box + "/oauth2/token"
            let rest = "&grant_type=client_credentials&box_subject_type=enterprise&box_subject_id=1000001"
            let good = "client_id=odd-client&client_secret=o%2Bd+%26s%3De%25cret%2F%C3%A9" + rest
            let bad = "client_id=odd-client&client_secret=o+d+%26s%3De%25cret%2F%C3%A9" + rest
            #expect(try await harness.form(url, good).status == 200)
            #expect(try await harness.form(url, bad).string("error") == "invalid_client")
        }
    }

    @Test func aRefreshTokenIsGoodOnceAndTheOldAccessTokenDiesWhenTheNewOneIsUsed() async throws {
        try await Harness.run { harness async throws in
            let first = try await harness.boxRefresh(harness.environment("BOX_REFRESH_TOKEN"))
            let second = try await harness.boxRefresh(first.string("refresh_token") ?? "")
            #expect(second.status == 200)
            #expect(try await harness.me(first.string("access_token")).status == 200)
            #expect(try await harness.me(second.string("access_token")).status == 200)
            #expect(try await harness.me(first.string("access_token")).status == 401)

            let reused = try await harness.boxRefresh(first.string("refresh_token") ?? "")
            #expect(reused.status == 400)
            #expect(reused.string("error") == "invalid_grant")
            #expect(try await harness.count(of: "double_spends.box") == 1)
        }
    }

    @Test func revokingOneTokenOfAPairEndsBoth() async throws {
        try await Harness.run { harness async throws in
            let pair = try await harness.boxRefresh(harness.environment("BOX_REFRESH_TOKEN"))
            let url = harness.sandbox.addresses.box + "/oauth2/revoke"
            let client = "client_id=sandbox-box-client&client_secret=sandbox-box-secret&token="
            let revoked = try await harness.form(url, client + (pair.string("access_token") ?? ""))
            #expect(revoked.status == 200)
            #expect(revoked.body.isEmpty)
            #expect(try await harness.me(pair.string("access_token")).status == 401)
            #expect(try await harness.boxRefresh(pair.string("refresh_token") ?? "").status == 400)
        }
    }

    @Test func aTokenCanBeExchangedForAWeakerOne() async throws {
        try await Harness.run { harness async throws in
            let parent = try await harness.boxToken().string("access_token") ?? ""
            let child = try await harness.form(
                harness.sandbox.addresses.box + "/oauth2/token",
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=\(parent)"
                    + "&subject_token_type=urn:ietf:params:oauth:token-type:access_token&scope=item_download"
            )
            #expect(child.string("issued_token_type") == "urn:ietf:params:oauth:token-type:access_token")
            let token = child.string("access_token")
            #expect(try await harness.me(token).status == 200)
            let box = harness.sandbox.addresses.box
            #expect(try await harness.send(.get, box + "/2.0/files/1/content", harness.bearer(token)).status == 302)
            #expect(try await harness.send(.get, box + "/2.0/folders/0/items", harness.bearer(token)).status == 403)
            let stronger = try await harness.form(
                box + "/oauth2/token",
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=\(token ?? "")"
                    + "&subject_token_type=urn:ietf:params:oauth:token-type:access_token&scope=item_upload"
            )
            #expect(stronger.status == 401)
        }
    }
}
