import GatewayHTTP

/// What an answer to a refresh means when it brings no token.
///
/// The code of the error decides before the status, because authorities send the same code with different statuses.
package enum RefreshError: Hashable, Sendable {
    /// The authority does not accept the refresh token any more.
    case refused
    /// As ``refused``, and only a person satisfies the authority: a password in the configuration must not stand in.
    case personNeeded
    /// The authority is busy.
    case transient
    /// The client or the address is wrong. The refresh token may be valid.
    case configuration
    /// The request is wrong. Where the same request has worked before, the refresh token may have ended.
    case request
    /// Any other 4xx. A firewall or a portal may have answered in the authority's place.
    case suspect

    /// nil for a 2xx that reports no error: it has no `error`, a harmless one, or one beside an access token that is no known code.
    package init?(_ reply: TokenReply) {
        if (200..<300).contains(reply.status), !Self.hasError(reply.document) || Self.ignoresError(in: reply) {
            return nil
        }
        self.init(status: reply.status, code: Self.code(in: reply))
        // A redirect is no answer of the token endpoint, whatever it says.
        let isRedirect = (300..<400).contains(reply.status)
        if mayBeAboutRefreshToken, !isRedirect, Self.namesRefreshToken(reply) { self = .refused }
    }

    /// Whether a 2xx brings an access token beside an `error` that is no known error code: `{}`, `"none"`, `"success"`, `true`.
    ///
    /// The tokens can be read without doubt, and the server may send them only once, so they outweigh a member that says nothing.
    package static func ignoresError(in reply: TokenReply) -> Bool {
        guard (200..<300).contains(reply.status), let answer = reply.document, hasError(answer),
            let token = answer["access_token"]?.string, !token.isEmpty
        else { return false }
        let codes = candidates(in: reply).map { $0.lowercased() }
        let hasKnownCode = codes.contains { meaning(of: $0) != nil || OAuthErrorCode.known.contains($0) }
        return !hasKnownCode && !namesRefreshToken(reply)
    }

    /// Some authorities send the member with every answer, as one of these values.
    private static func hasError(_ answer: JSONValue?) -> Bool {
        switch answer?["error"] {
        case nil, .null?, .bool(false)?, .string("")?: false
        case .number(let number)?: number.value != 0
        default: true
        }
    }

    /// - Parameters:
    ///   - status: The status of the answer. A 2xx is here because its body has an `error`, as GitHub sends it.
    ///   - code: In lower case; nil when the answer has none.
    package init(status: Int, code: String?) {
        if Self.isTransient(status) {
            self = .transient
        } else if (300..<400).contains(status) {
            self = .configuration
        } else if let listed = code.flatMap(Self.meaning(of:)) {
            self = listed
        } else if (200..<300).contains(status) {
            self = .refused
        } else {
            self = status == 404 ? .configuration : .suspect
        }
    }

    /// Whether the words of the answer can say more than its code: no status or code has said whose fault it is.
    private var mayBeAboutRefreshToken: Bool {
        switch self {
        case .configuration, .request, .suspect: true
        case .refused, .personNeeded, .transient: false
        }
    }

    /// Whether the answer blames what the configuration holds, so that no password was judged.
    package var blamesConfiguration: Bool { self == .configuration || self == .request }

    /// Whether the answer says that the refresh token is worth nothing.
    package var endsRefreshToken: Bool { self == .refused || self == .personNeeded }

    static func isTransient(_ status: Int) -> Bool {
        switch status {
        case 408, 421, 423, 425, 429, 500...599: true
        default: false
        }
    }
}

// MARK: The code of an error

/// What the code of an error means.
extension RefreshError {
    /// The code that an answer holds: `error`, or what authorities send in its place.
    ///
    /// A code that asks for a person comes first, because Microsoft sends it as `suberror` beside `invalid_grant`. A code that
    /// is listed comes before one that is not.
    package static func code(in reply: TokenReply) -> String? {
        let codes = candidates(in: reply).map { $0.lowercased() }
        return codes.first(where: needingPersonCodes.contains) ?? codes.first { meaning(of: $0) != nil } ?? codes.first
    }

    private static func candidates(in reply: TokenReply) -> [String] {
        let challenge = reply.field("WWW-Authenticate").flatMap { AuthChallenge.errorCode(in: Array($0.utf8)) }
        guard let answer = reply.document else { return [challenge].compactMap(\.self) }
        let nested = [answer["error"], answer["errors"]?.first].compactMap(\.self)
        let members = ["error", "code", "error_code", "suberror"].map { answer[$0] } + nested.flatMap(named)
        // Often no code but a sentence, or the word "error". HubSpot has a code in `status`.
        let messages = ([answer] + nested).map { $0["message"] } + [answer["status"]]
        let codes = (members.map { $0?.string } + [challenge]).compactMap(\.self).filter(isCode)
        return codes + messages.compactMap { $0?.string }.filter { meaning(of: $0.lowercased()) != nil }
    }

    private static func named(in error: JSONValue) -> [JSONValue?] {
        ["code", "error", "errorType", "type", "status"].map { error[$0] }
    }

    /// A sentence is no code.
    private static func isCode(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"): true
                default: false
                }
            }
    }

    private static func meaning(of code: String) -> RefreshError? {
        if needingPersonCodes.contains(code) { return .personNeeded }
        if transientCodes.contains(code) { return .transient }
        if clientCodes.contains(code) { return .configuration }
        if requestCodes.contains(code) { return .request }
        return refusedCodes.contains(code) || code.hasSuffix("_required") ? .refused : nil
    }

    private static let needingPersonCodes: Set<String> = ["mfa_required", "interaction_required", "consent_required"]

    /// RFC 6749 §5.2, RFC 6750 §3.1, RFC 8628 §3.5; then GitHub, Box, Firebase and others.
    private static let refusedCodes: Set<String> = [
        "invalid_grant", "invalid_token", "expired_token", "bad_refresh_token", "bad_verification_code",
        "token_expired", "token_revoked", "token_inactive", "refresh_token_expired", "refresh_token_revoked",
        "invalid_refresh_token", "expired_refresh_token", "revoked_token", "session_expired", "unauthorized_device",
        "exceeded_device_limits", "missing_device_id", "unsupported_device_pinning_runtime", "account_deactivated",
        "user_disabled", "user_not_found",
    ]

    private static let transientCodes: Set<String> = [
        "server_error", "temporarily_unavailable", "slow_down", "ratelimited", "rate_limited", "rate_limit_exceeded",
        "too_many_requests", "internal_error", "internal_server_error", "service_unavailable", "request_timeout",
        "timeout",
    ]

    /// The authority does not know the client, or does not accept how it authenticates.
    package static let clientAuthenticationCodes: Set<String> = [
        "invalid_client", "incorrect_client_credentials", "invalid_client_id", "bad_client_secret",
    ]

    private static let clientCodes = clientAuthenticationCodes.union(["unauthorized_client"])

    private static let requestCodes: Set<String> = [
        "invalid_scope", "invalid_request", "unsupported_grant_type", "invalid_target", "redirect_uri_mismatch",
    ]
}

// MARK: The words of an error

/// What the words of an error mean, if it has no code that is known.
extension RefreshError {
    /// What authorities write about a refresh token that has ended, beside a code or a status that says something else: lower case,
    /// words with one space between them. Each has a source.
    ///
    /// "Missing parameters: refresh_token" (github.com/lukasolson/fitbit-node/issues/7) is about the request and must fit none.
    private static let refusals: [(words: String, source: String)] = [
        // unauthorized_client, status 403: "refresh_token is invalid".
        ("refresh token is invalid", "Atlassian: github.com/raycast/extensions/issues/11836"),
        // invalid_request: "The refresh_token is invalid."
        ("refresh token is invalid", "DeviantArt: github.com/wix-incubator/DeviantArt-API/issues/58"),
        // invalid_request: "Invalid \"refresh_token\" in request."
        ("invalid refresh token", "Authlib: github.com/lepture/authlib/issues/112"),
        // "missing or invalid refresh token".
        ("invalid refresh token", "HubSpot: github.com/supaglue-labs/supaglue/pull/1935"),
        // "Refresh token invalid: …".
        ("refresh token invalid", "Fitbit: github.com/aarondcoleman/Fitbit.NET/issues/320"),
        // `field` and `code` of an error: "refresh_token", "invalid".
        ("refresh token invalid", "Strava: github.com/dreeveapp/dreeve/issues/1449"),
        // "Refresh token not found: …".
        ("refresh token not found", "Intuit: github.com/intuit/oauth-jsclient/issues/77"),
        // "AADSTS700082: The refresh token has expired due to inactivity."
        ("refresh token has expired", "Microsoft: github.com/blobfile/blobfile/issues/93"),
        // "Refresh token exceeded inactivity timeout".
        ("refresh token exceeded", "Bluesky: github.com/ChimeHQ/OAuthenticator/issues/23"),
    ]

    /// Looked for in what is shown to operators as well; nothing of it is repeated here.
    private static func namesRefreshToken(_ reply: TokenReply) -> Bool {
        guard let answer = reply.document else { return false }
        let errors = [answer, answer["error"], answer["errors"]?.first].compactMap(\.self)
        let texts = errors.flatMap { error in
            ["error_description", "message", "detail"].map { error[$0]?.string }
                + [error["field"]?.string.map { "\($0) \(error["code"]?.string ?? "")" }]
        }
        return texts.compactMap(\.self).contains { text in
            let words = " \(words(of: text)) "
            return refusals.contains { words.contains(" \($0.words) ") }
        }
    }

    /// How much of a text is read.
    private static let readLimit = 1024

    private static func words(of text: String) -> String {
        text.prefix(readLimit).lowercased().split { !$0.isLetter && !$0.isNumber }.joined(separator: " ")
    }
}

extension JSONValue {
    fileprivate var first: JSONValue? { if case .array(let elements) = self { elements.first } else { nil } }
}
