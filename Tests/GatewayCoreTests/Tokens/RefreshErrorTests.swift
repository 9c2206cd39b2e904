import GatewayCore
import Testing

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
        Row(400, #"{"error":"invalid_scope"}"#, .configuration),
        Row(400, #"{"error":"invalid_request"}"#, .configuration),
        Row(400, #"{"error":"unsupported_grant_type"}"#, .configuration),
        Row(200, #"{"error":"incorrect_client_credentials"}"#, .configuration),
    ])
    func theConfigurationIsWrong(_ row: Row) { Self.check(row) }

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

    @Test(arguments: [
        (RefreshError.refused, true, true), (.personNeeded, false, false), (.transient, false, false),
        (.configuration, false, true), (.suspect, false, true),
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
