import GatewayHTTP
import Testing

@testable import GatewaySandbox

@Suite(.timeLimit(.minutes(5)))
struct BoxAPITests {
    private static let invalidToken =
        #"Bearer realm="Service", error="invalid_token", error_description="The access token provided is invalid.""#

    @Test func anExpiredATokenRevokedAndANonsenseTokenMeetTheSameEmpty401() async throws {
        try await Harness.run { harness async throws in
            let expired = try await harness.boxToken().string("access_token")
            try await harness.steer(harness.sandbox.addresses.box, #"{"age_tokens_s": 3600}"#)
            let revoked = try await harness.boxToken().string("access_token")
            #expect(try await harness.me(revoked).status == 200)
            try await harness.steer(harness.sandbox.addresses.box, #"{"revoke_all": true}"#)
            for token in [expired, revoked, "nonsense"] {
                let answer = try await harness.me(token)
                #expect(answer.status == 401)
                #expect(answer.body.isEmpty)
                #expect(answer.field("WWW-Authenticate") == Self.invalidToken)
            }
            #expect(try await harness.count(of: "rejected_401.box") == 3)
        }
    }

    @Test func aMissingCredentialIsAnInvalidRequest() async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.send(.get, harness.sandbox.addresses.box + "/2.0/users/me")
            #expect(answer.status == 401)
            #expect(answer.field("WWW-Authenticate")?.contains(#"error="invalid_request""#) == true)
        }
    }

    @Test func onlyAServiceAccountMayActAsAUser() async throws {
        try await Harness.run { harness async throws in
            let url = harness.sandbox.addresses.box + "/2.0/users/me"
            let service = try await harness.boxToken().string("access_token")
            let user = try await harness.boxToken("user:2000001").string("access_token")
            let asUser = ("As-User", "2000002")
            #expect(try await harness.send(.get, url, harness.bearer(service) + [asUser]).string("id") == "2000002")
            let refused = try await harness.send(.get, url, harness.bearer(user) + [asUser])
            #expect(refused.status == 403)
            #expect(refused.body.isEmpty)
            #expect(refused.field("WWW-Authenticate")?.contains(#"error="insufficient_scope""#) == true)
            let itself = try await harness.send(.get, url, harness.bearer(service) + [("As-User", "3000001")])
            #expect(itself.status == 403)
        }
    }

    @Test func aRateLimitComesWithALowerCaseRetryAfter() async throws {
        try await Harness.run { harness async throws in
            let token = try await harness.boxToken().string("access_token")
            try await harness.steer(
                harness.sandbox.addresses.box,
                #"{"api_status": 429, "api_next": 1, "api_retry_after": 7}"#
            )
            let limited = try await harness.me(token)
            #expect(limited.status == 429)
            #expect(limited.fields.contains { $0.name == "retry-after" && $0.value == "7" })
            #expect(limited.string("code") == "rate_limit_exceeded")
            #expect(try await harness.me(token).status == 200)
        }
    }

    @Test func aDownloadIsRedirectedToAnOriginThatRefusesEveryCredential() async throws {
        try await Harness.run { harness async throws in
            let token = try await harness.boxToken().string("access_token")
            let redirect = try await harness.send(
                .get,
                harness.sandbox.addresses.box + "/2.0/files/1/content",
                harness.bearer(token)
            )
            let location = redirect.field("location") ?? ""
            #expect(redirect.status == 302)
            #expect(location.hasPrefix(harness.sandbox.addresses.boxDownloads + "/d/1/"))
            #expect(try await harness.send(.get, location).status == 200)
            #expect(try await harness.count(of: "authorization_leaks") == 0)
            #expect(try await harness.send(.get, location, harness.bearer(token)).status == 401)
            #expect(try await harness.count(of: "authorization_leaks") == 1)
        }
    }

    @Test func anUploadIsCountedOnceAndWhole() async throws {
        try await Harness.run { harness async throws in
            let token = try await harness.boxToken().string("access_token")
            let url = harness.sandbox.addresses.box + "/2.0/files/content"
            let body = Harness.Body.text("abc")
            #expect(try await harness.send(.post, url, harness.bearer("bad"), body: body).status == 401)
            let answer = try await harness.send(.post, url, harness.bearer(token), body: body)
            #expect(answer.status == 201)
            #expect(answer.text.contains("a9993e364706816aba3e25717850c26c9cd0d89d"))
            #expect(try await harness.count(of: "uploads.count") == 1)
            #expect(try await harness.count(of: "uploads.bytes") == 3)
        }
    }

    @Test func folderItemsAreListed() async throws {
        try await Harness.run { harness async throws in
            let url = harness.sandbox.addresses.box + "/2.0/folders/"
            let token = harness.bearer(harness.environment("BOX_DEVELOPER_TOKEN"))
            #expect(try await harness.send(.get, url + "0/items", token)["total_count"] == .number(2))
            #expect(try await harness.send(.get, url + "9/items", token).string("code") == "not_found")
        }
    }
}

@Suite("Chunked uploads under way", .timeLimit(.minutes(1)))
struct UploadSessionsTests {
    @Test func theirNumberIsLimitedUntilOneEnds() {
        var sessions = UploadSessions()
        let session = UploadSessions.Session(fileName: "a", fileSize: 1)
        let begun = (0...UploadSessions.maximumSessions).map { sessions.begin(session, id: "\($0)") }
        #expect(begun.dropLast().allSatisfy { $0 } && begun.last == false)
        let (ended, another) = (sessions.end("1"), sessions.begin(session, id: "another"))
        #expect(ended != nil && another)
    }
}
