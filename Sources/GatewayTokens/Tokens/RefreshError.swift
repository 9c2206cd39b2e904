import GatewayHTTP

/// What the response to a refresh means if it has no token.
///
/// The error code decides before the status, because servers send the same code with different statuses.
package enum RefreshError: Hashable, Sendable {
    /// The server no longer accepts the refresh token.
    case refused
    /// Like ``refused``, but only a person can log in again: a password in the configuration must not be used instead.
    case personNeeded
    /// The server is busy.
    case transient
    /// The client or the address is wrong. The refresh token may be valid.
    case configuration
    /// The request is wrong. If the same request has worked before, the refresh token may have expired.
    case request
    /// Any other 4xx. A firewall or a portal may have answered instead of the server.
    case suspect

    /// nil for a 2xx that reports no error: it has no `error`, a harmless one, or an access token and an `error` that is no known code.
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

    /// Some servers send the member with every response, as one of these values.
    private static func hasError(_ answer: JSONValue?) -> Bool {
        switch answer?["error"] {
        case nil, .null?, .bool(false)?, .string("")?: false
        case .number(let number)?: number.value != 0
        default: true
        }
    }

    /// - Parameters:
    ///   - status: The status of the answer. A 2xx is here because its body has an `error`; some servers report errors this way.
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

    /// Whether the response says that the refresh token is no longer valid.
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
    /// The code in a response: `error`, or what servers send instead.
    ///
    /// A code that asks for a person comes first, because it may be the `suberror` of an `invalid_grant`. A listed code comes
    /// before one that is not listed.
    package static func code(in reply: TokenReply) -> String? {
        let codes = candidates(in: reply).map { $0.lowercased() }
        return codes.first(where: needingPersonCodes.contains) ?? codes.first { meaning(of: $0) != nil } ?? codes.first
    }

    private static func candidates(in reply: TokenReply) -> [String] {
        let challenge = reply.field("WWW-Authenticate").flatMap { AuthChallenge.errorCode(in: Array($0.utf8)) }
        guard let answer = reply.document else { return [challenge].compactMap(\.self) }
        let nested = [answer["error"], answer["errors"]?.first].compactMap(\.self)
        let members = ["error", "code", "error_code", "suberror"].map { answer[$0] } + nested.flatMap(named)
        // `message` often holds a sentence, or the word "error". `status` may hold a code.
        let messages = ([answer] + nested).map { $0["message"] } + [answer["status"]]
        let codes = (members.map { $0?.string } + [challenge]).compactMap(\.self).filter(isCode)
        return codes + messages.compactMap { $0?.string }.filter { meaning(of: $0.lowercased()) != nil }
    }

    private static func named(in error: JSONValue) -> [JSONValue?] {
        ["code", "error", "errorType", "type", "status"].map { error[$0] }
    }

    /// Whether this is a code and not a sentence.
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

    /// RFC 6749 §5.2, RFC 6750 §3.1, RFC 8628 §3.5; then codes of other servers.
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

    /// The server does not know the client, or does not accept how it authenticates.
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
    /// What servers write about an invalid refresh token next to a code or status that says something else: lower case, words with
    /// one space between them. `RefreshErrorTests` has the source of each.
    ///
    /// "Missing parameters: refresh_token" is about the request and must not match.
    private static let refusals = [
        "refresh token is invalid", "invalid refresh token", "refresh token invalid", "refresh token not found",
        "refresh token has expired", "refresh token exceeded",
    ]

    /// Searches the members that operators are shown. Nothing of them is repeated here.
    private static func namesRefreshToken(_ reply: TokenReply) -> Bool {
        guard let answer = reply.document else { return false }
        let errors = [answer, answer["error"], answer["errors"]?.first].compactMap(\.self)
        let texts = errors.flatMap { error in
            ["error_description", "message", "detail"].map { error[$0]?.string }
                + [error["field"]?.string.map { "\($0) \(error["code"]?.string ?? "")" }]
        }
        return texts.compactMap(\.self).contains { text in
            let words = " \(words(of: text)) "
            return refusals.contains { words.contains(" \($0) ") }
        }
    }

    /// How many characters of a string are read.
    private static let readLimit = 1024

    private static func words(of text: String) -> String {
        text.prefix(readLimit).lowercased().split { !$0.isLetter && !$0.isNumber }.joined(separator: " ")
    }
}

extension JSONValue {
    fileprivate var first: JSONValue? { if case .array(let elements) = self { elements.first } else { nil } }
}
