import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("What an answer without a token means to a refresh", .timeLimit(.minutes(5)))
struct RefreshErrorTests {
    struct Row: CustomTestStringConvertible {
        let status: Int
        let body: String
        let means: RefreshError?
        var challenge: String?
        var testDescription: String { "\(status) \(body.prefix(40)) \(challenge ?? "")" }

        init(_ status: Int, _ body: String, _ means: RefreshError?, challenge: String? = nil) {
            (self.status, self.body, self.means, self.challenge) = (status, body, means, challenge)
        }
    }

    private static func check(_ row: Row) {
        let fields = row.challenge.map { [TokenReply.Field(name: "www-authenticate", value: $0)] } ?? []
        let reply = TokenReply(status: row.status, fields: fields, body: Array(row.body.utf8))
        #expect(RefreshError(reply) == row.means)
    }

    @Test(arguments: [
        Row(400, #"{"error":"invalid_grant"}"#, .refused),
        Row(401, #"{"error":"invalid_token"}"#, .refused),
        Row(400, #"{"error":"token_expired"}"#, .refused),
        Row(400, #"{"error":"expired_token"}"#, .refused),
        Row(200, #"{"error":"bad_refresh_token","error_description":"…"}"#, .refused),
        Row(200, #"{"error":"something_new"}"#, .refused), Row(200, #"{"error":true}"#, .refused),
        Row(400, #"{"error":"bad_verification_code"}"#, .refused),
        Row(400, #"{"error":"login_required"}"#, .refused),
        Row(400, #"{"error":"reauthentication_required"}"#, .refused),
        Row(400, #"{"error":"unauthorized_device"}"#, .refused),
        Row(404, #"{"error":"invalid_grant"}"#, .refused),
        Row(400, #"{"error":{"code":"invalid_grant","message":"No."}}"#, .refused),
        Row(400, #"{"error":{"code":400,"message":"TOKEN_EXPIRED","status":"INVALID_ARGUMENT"}}"#, .refused),
        Row(400, #"{"errors":[{"code":"token_revoked"}]}"#, .refused),
        Row(400, #"{"code":"invalid_refresh_token"}"#, .refused),
        Row(400, #"{"message":"token_expired"}"#, .refused),
        Row(401, "", .refused, challenge: #"Bearer error="invalid_token""#),
    ])
    func aRefusalEndsTheRefreshToken(_ row: Row) {
        Self.check(row)
        #expect(row.means?.endsRefreshToken == true)
    }

    /// What servers have answered to an invalid refresh token, each with its source.
    @Test(arguments: [
        // Atlassian: github.com/raycast/extensions/issues/11836
        Row(403, #"{"error":"unauthorized_client","error_description":"refresh_token is invalid"}"#, .refused),
        // DeviantArt: github.com/wix-incubator/DeviantArt-API/issues/58
        Row(400, #"{"error":"invalid_request","error_description":"The refresh_token is invalid."}"#, .refused),
        // Authlib: github.com/lepture/authlib/issues/112
        Row(400, #"{"error":"invalid_request","error_description":"Invalid \"refresh_token\" in request."}"#, .refused),
        Row(400, #"{"status":"BAD_REFRESH_TOKEN","message":"missing or unknown refresh token"}"#, .refused),
        // HubSpot: github.com/supaglue-labs/supaglue/pull/1935
        Row(400, #"{"status":"error","message":"missing or invalid refresh token"}"#, .refused),
        Row(400, #"{"errors":[{"errorType":"invalid_grant","message":"No."}],"success":false}"#, .refused),
        // Fitbit: github.com/aarondcoleman/Fitbit.NET/issues/320
        Row(401, #"{"errors":[{"errorType":"other","message":"Refresh token invalid: r. Visit"}]}"#, .refused),
        // Strava, in `field` and `code`: github.com/dreeveapp/dreeve/issues/1449
        Row(
            400,
            #"{"message":"Bad Request","errors":[{"resource":"RefreshToken","field":"refresh_token","code":"invalid"}]}"#,
            .refused
        ),
        // Intuit: github.com/intuit/oauth-jsclient/issues/77
        Row(400, #"{"error":"invalid_request","error_description":"Refresh token not found: AB11"}"#, .refused),
        // Microsoft: github.com/blobfile/blobfile/issues/93
        Row(400, #"{"error":"x","error_description":"AADSTS700082: The refresh token has expired due to"}"#, .refused),
        // Bluesky: github.com/ChimeHQ/OAuthenticator/issues/23
        Row(401, #"{"error":"invalid_client","error_description":"Refresh token exceeded inactivity"}"#, .refused),
    ])
    func theWordsNameTheRefreshToken(_ row: Row) { Self.check(row) }

    @Test(arguments: [
        // github.com/lukasolson/fitbit-node/issues/7
        Row(400, #"{"error":"invalid_scope","error_description":"Missing parameters: refresh_token"}"#, .request),
        Row(400, #"{"error":"unauthorized_client","message":"refresh_token grant is not allowed"}"#, .configuration),
        Row(400, #"{"error":"invalid_client","error_description":"invalid refresh tokens endpoint"}"#, .configuration),
        Row(503, #"{"error":"invalid_request","error_description":"refresh_token is invalid"}"#, .transient),
        Row(400, #"{"error":"slow_down","error_description":"refresh_token is invalid"}"#, .transient),
        Row(400, #"{"error":"mfa_required","error_description":"refresh_token is invalid"}"#, .personNeeded),
        Row(302, #"{"error_description":"refresh_token is invalid"}"#, .configuration),
        Row(403, "refresh_token is invalid", .suspect),
    ])
    func otherWordsDoNot(_ row: Row) { Self.check(row) }

    /// Neither a byte that is not UTF-8 in a member that nobody reads nor a form hides a refusal.
    @Test func theWordsAreReadInOddBodies() {
        let said = #""error":"invalid_request","error_description":"refresh_token is invalid"}"#
        let broken = Array(#"{"trace":""#.utf8) + [0xE9] + Array("\",\(said)".utf8)
        #expect(RefreshError(TokenReply(status: 400, body: broken)) == .refused)
        let type = TokenReply.Field(name: "Content-Type", value: "application/x-www-form-urlencoded")
        let form = Array("error=invalid_request&error_description=The+refresh_token+is+invalid.".utf8)
        #expect(RefreshError(TokenReply(status: 400, fields: [type], body: form)) == .refused)
    }

    @Test func wordsAreReadUpToABound() {
        let far = String(repeating: "a ", count: 600) + "refresh_token is invalid"
        Self.check(Row(400, #"{"error":"invalid_request","error_description":"\#(far)"}"#, .request))
    }

    /// The same request has worked before, and the answer is not about the client.
    @Test(arguments: [
        (400, "invalid_request", true, true), (400, "invalid_scope", true, true), (200, "invalid_target", true, true),
        (400, "invalid_request", false, false), (401, "invalid_client", true, false),
        (400, "unauthorized_client", true, false), (302, "invalid_request", true, false),
        (503, "invalid_request", true, false), (400, "invalid_grant", true, false),
    ])
    func aRefusalMayBeTheEndOfTheLogin(_ status: Int, _ code: String, _ hasWorked: Bool, _ may: Bool) {
        let moment = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: UnixTime(seconds: 0))
        let held = TokenSet(access: Secret(hasWorked ? "a" : ""), refreshToken: Secret("r"), obtainedAt: moment.wall)
        let attempt = GrantAttempt(holding: held, at: moment, nonce: "00")
        let reply = TokenReply(status: status, fields: [], body: Array(#"{"error":"\#(code)"}"#.utf8))
        #expect(RefreshError(reply)?.mayEndLogin(in: attempt) == may)
    }

    @Test func aTokenOfTheConfigurationHasNotWorked() {
        let moment = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: UnixTime(seconds: 0))
        let held = TokenSet(access: Secret("a"), refreshToken: Secret("r"), obtainedAt: moment.wall)
        var attempt = GrantAttempt(holding: held, at: moment, nonce: "00")
        #expect(attempt.hasWorked)
        attempt.holdsSeed = true
        #expect(!attempt.hasWorked)
    }

    @Test(arguments: ["mfa_required", "interaction_required", "consent_required"])
    func aPersonIsNeeded(_ code: String) {
        Self.check(Row(400, #"{"error":"\#(code)"}"#, .personNeeded))
        Self.check(Row(400, #"{"error":"invalid_grant","suberror":"\#(code)"}"#, .personNeeded))
    }

    @Test(arguments: [408, 421, 423, 425, 429, 500, 502, 503, 504, 599])
    func aBusyAuthorityIsAskedAgain(_ status: Int) {
        Self.check(Row(status, "", .transient))
        Self.check(Row(status, #"{"error":"invalid_grant"}"#, .transient))
    }

    @Test(arguments: ["server_error", "temporarily_unavailable", "slow_down", "ratelimited"])
    func aBusyAuthoritySaysSoInACode(_ code: String) {
        for status in [200, 400, 403] { Self.check(Row(status, #"{"error":"\#(code)"}"#, .transient)) }
    }

    @Test(arguments: [
        Row(301, "", .configuration), Row(302, #"{"error":"invalid_grant"}"#, .configuration),
        Row(308, "", .configuration), Row(404, "<html>", .configuration),
        Row(401, #"{"error":"invalid_client"}"#, .configuration),
        Row(400, #"{"error":"unauthorized_client"}"#, .configuration),
        Row(302, #"{"error":"invalid_request"}"#, .configuration),
        Row(400, #"{"error":"invalid_client_id"}"#, .configuration),
        Row(200, #"{"error":"incorrect_client_credentials"}"#, .configuration),
    ])
    func theConfigurationIsWrong(_ row: Row) {
        Self.check(row)
        #expect(row.means?.blamesConfiguration == true)
    }

    @Test(arguments: [
        Row(400, #"{"error":"invalid_scope"}"#, .request), Row(400, #"{"error":"invalid_request"}"#, .request),
        Row(400, #"{"error":"unsupported_grant_type"}"#, .request),
        Row(200, #"{"error":"invalid_target"}"#, .request),
        Row(404, #"{"error":"redirect_uri_mismatch"}"#, .request),
    ])
    func theRequestIsWrong(_ row: Row) {
        Self.check(row)
        #expect(row.means?.blamesConfiguration == true)
    }

    @Test(arguments: [
        Row(400, "", .suspect), Row(401, "", .suspect), Row(403, "", .suspect), Row(400, "Bad Request", .suspect),
        Row(403, "<html><title>Blocked</title></html>", .suspect), Row(400, #"{"message":"It failed."}"#, .suspect),
        Row(401, #"{"error":"Unauthorized"}"#, .suspect), Row(400, #"{"error":{"message":"No."}}"#, .suspect),
        Row(405, "", .suspect), Row(407, "", .suspect), Row(409, "", .suspect), Row(410, "", .suspect),
        Row(418, "", .suspect), Row(451, "", .suspect), Row(400, #"{"error":null}"#, .suspect),
        Row(401, "", .suspect, challenge: #"Basic realm="portal""#), Row(400, "{", .suspect), Row(400, "[]", .suspect),
    ])
    func anyOther4xxIsSuspect(_ row: Row) { Self.check(row) }

    @Test(arguments: [
        "", "{}", #"{"error":null}"#, "<html>", #"{"access_token":"a"}"#, #"{"access_token":"a","error":false}"#,
        #"{"access_token":"a","error":""}"#, #"{"access_token":"a","error":0}"#,
    ])
    func aSuccessWithoutAnErrorIsNoError(_ body: String) { Self.check(Row(200, body, nil)) }

    /// An `error` beside an access token counts only if it is a known code.
    @Test(arguments: [
        "{}", "[]", "[{}]", #"" ""#, #""0""#, #""none""#, #""success""#, #""false""#, #""something_new""#, "true", "1",
        #"{"code":0,"message":"ok"}"#, #"{"code":"0","message":"OK"}"#,
    ])
    func anAccessTokenOutweighsAnErrorThatIsNoKnownCode(_ error: String) {
        Self.check(Row(200, #"{"access_token":"a","refresh_token":"r","error":\#(error)}"#, nil))
        Self.check(Row(201, #"{"error":\#(error),"access_token":"a"}"#, nil))
        for token in ["", #""access_token":"","#, #""access_token":null,"#, #""access_token":["a"],"#] {
            Self.check(Row(200, #"{\#(token)"refresh_token":"r","error":\#(error)}"#, .refused))
        }
        Self.check(Row(400, #"{"access_token":"a","error":\#(error)}"#, .suspect))
    }

    @Test(arguments: [
        Row(200, #"{"access_token":"a","error":"bad_refresh_token"}"#, .refused),
        Row(200, #"{"access_token":"a","error":"INVALID_GRANT"}"#, .refused),
        Row(200, #"{"access_token":"a","error":{"code":"invalid_grant"}}"#, .refused),
        Row(200, #"{"access_token":"a","error":"access_denied"}"#, .refused),
        Row(200, #"{"access_token":"a","error":"mfa_required"}"#, .personNeeded),
        Row(200, #"{"access_token":"a","error":"server_error"}"#, .transient),
        Row(200, #"{"access_token":"a","error":"invalid_client"}"#, .configuration),
        Row(200, #"{"access_token":"a","error":"invalid_scope"}"#, .request),
        Row(200, #"{"access_token":"a","error":"x","error_description":"refresh_token is invalid"}"#, .refused),
    ])
    func aKnownCodeOutweighsAnAccessToken(_ row: Row) {
        Self.check(row)
        let reply = TokenReply(status: row.status, body: Array(row.body.utf8))
        #expect(!RefreshError.ignoresError(in: reply))
    }

    @Test(arguments: [
        (RefreshError.refused, true, true), (.personNeeded, false, false), (.transient, false, false),
        (.configuration, false, true), (.request, false, true), (.suspect, false, true),
    ])
    func aGrantAcquiresAnewAtOnceOrAfterTheTries(_ error: RefreshError, _ atOnce: Bool, _ later: Bool) {
        let moment = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: UnixTime(seconds: 0))
        var attempt = GrantAttempt(holding: nil, at: moment, nonce: "00")
        #expect(error.acquiresAnew(in: attempt) == atOnce)
        attempt.mayAcquireAnew = true
        #expect(error.acquiresAnew(in: attempt) == later)
    }

    @Test func everyCodeThatIsUnderstoodMayBeRepeated() {
        for code in ["bad_refresh_token", "token_expired", "mfa_required", "incorrect_client_credentials"] {
            #expect(OAuthErrorCode.allowListed(code) == code)
        }
        #expect(OAuthErrorCode.allowListed("reauthentication_required") == "other")
    }
}
