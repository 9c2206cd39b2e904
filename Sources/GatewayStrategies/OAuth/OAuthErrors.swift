import GatewayHTTP
import GatewayTokens

/// What the answers of one token endpoint mean (RFC 6749 §5), and what a person can do about the bad ones.
///
/// The authorization server's own words choose the advice; they are never repeated.
struct OAuthErrors: Sendable {
    struct Advice: Sendable {
        let code: String
        /// Lower case; looked for in `error_description`. nil takes any description.
        var marker: String?
        let text: String
    }

    /// Who answered, as a sentence begins: `Box`, `The authorization server`.
    let authority: String
    /// The first that fits is given, so those with a marker stand before those without.
    let advice: [Advice]
    /// Values of `token_type`, in lower case, of tokens that cannot be sent behind `Bearer`. Any other value is taken:
    /// authorization servers write `BearerToken`, `bot` or nothing, and the token is spent by the time that this is read.
    let unsendableTypes: Set<String>
    /// Where the client is refused; nil for what is said of any client.
    private var clientAdvice: String?

    init(authority: String, advice: [Advice], unsendableTypes: Set<String> = ["mac", "dpop", "pop", "n_a"]) {
        self.authority = authority
        self.advice = advice
        self.unsendableTypes = unsendableTypes
    }

    /// These errors, with advice about how this client authenticates.
    func advising(_ client: ClientAuthentication?) -> OAuthErrors {
        var errors = self
        errors.clientAdvice = client?.refusalAdvice
        return errors
    }

    static let standard = OAuthErrors(
        authority: "The authorization server",
        advice: [
            // Entra takes a refresh without a scope for a request for the client's own token
            // (github.com/AzureAD/microsoft-authentication-library-for-js/issues/5198).
            Advice(
                code: "invalid_request",
                marker: "aadsts90009",
                text: "Entra requires the scope in a refresh as well; set refresh_parameters: {scope: …} to the scopes."
            )
        ]
    )

    /// The access token alone; a refresh token beside it is left out.
    func answer(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let now = attempt.now
        return GrantAnswer(read(reply, in: &attempt).map { $0.tokenSet(at: now) })
    }

    /// - Parameters:
    ///   - rotatesRefreshToken: Whether it comes for something that can be presented only once.
    ///   - isRefresh: Whether a refresh token was presented, so that an error tells what became of it.
    func read(
        _ reply: TokenReply,
        in attempt: inout GrantAttempt,
        rotatesRefreshToken: Bool = false,
        isRefresh: Bool = false
    ) -> Result<OAuthTokenResponse, TokenFailure> {
        let result = read(reply, at: attempt.now, rotatesRefreshToken: rotatesRefreshToken, isRefresh: isRefresh)
        if case .success(let answer) = result {
            attempt.remarks += answer.remarks
            if RefreshError.ignoresError(in: reply) {
                attempt.remarks.append("ignored error: it is not a known error code, and an access_token came with it")
            }
        }
        return result
    }

    func read(
        _ reply: TokenReply,
        at now: Moment,
        rotatesRefreshToken: Bool = false,
        isRefresh: Bool = false
    ) -> Result<OAuthTokenResponse, TokenFailure> {
        if let error = RefreshError(reply) {
            return .failure(isRefresh ? refreshFailure(error, reply, at: now) : failure(error, reply, at: now))
        }
        let answer = reply.document
        if let type = unsendableType(in: answer) { return .failure(wrongType(type, status: reply.status)) }
        do throws(BrokenAnswer) {
            return .success(try OAuthTokenResponse(answer, at: now.wall, rotatesRefreshToken: rotatesRefreshToken))
        } catch {
            return .failure(error.failure(of: authority, status: reply.status))
        }
    }

    /// If the answer repeats the member with other values, any one of them counts.
    private func unsendableType(in answer: JSONValue?) -> String? {
        guard let type = answer?["token_type"] else { return nil }
        let values: [JSONValue] =
            switch type {
            case .array(let elements), .conflict(let elements): elements
            default: [type]
            }
        let names = values.compactMap { $0.string?.lowercased().filter { $0 != " " } }
        return names.first(where: unsendableTypes.contains)
    }

    /// A MAC or DPoP token behind `Bearer` would be refused by every upstream, or do without its proof.
    private func wrongType(_ name: String, status: Int) -> TokenFailure {
        TokenFailure(
            .terminal,
            problem: GatewayProblem(
                .credentialMisconfigured,
                "\(authority) issued a token whose token_type is not Bearer (\(name)), so it cannot be sent as one: set up the "
                    + "client for bearer tokens there.",
                cause: GatewayProblem.Cause(httpStatus: status)
            )
        )
    }

    private func failure(_ error: RefreshError, _ reply: TokenReply, at now: Moment) -> TokenFailure {
        let code = OAuthErrorCode.allowListed(RefreshError.code(in: reply))
        let cause = GatewayProblem.Cause(code: code, httpStatus: reply.status)
        if error == .transient {
            let wait = reply.retryAfter(at: now)
            return .transient(authority: authority, status: reply.status, code: code, wait: wait)
        }
        let detail = detail(reply, code: code)
        return TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail, cause: cause))
    }

    private func refreshFailure(_ error: RefreshError, _ reply: TokenReply, at now: Moment) -> TokenFailure {
        switch error {
        case .transient, .configuration, .request: return failure(error, reply, at: now)
        case .suspect: return TokenFailure(suspect: reply, from: authority)
        case .refused, .personNeeded: break
        }
        let code = OAuthErrorCode.allowListed(RefreshError.code(in: reply)) ?? "other"
        let reason =
            if error == .personNeeded {
                "a person must confirm the login."
            } else if Self.needsAnother.contains(code) {
                "it no longer lets this account or device in. A login that it accepts is needed."
            } else {
                "it has expired, was revoked, or was used elsewhere. A new login is needed."
            }
        let name = code == "other" ? "an unknown error code" : code
        let detail = "\(authority) no longer accepts the refresh token (\(name)): \(reason)"
        let cause = GatewayProblem.Cause(code: code, httpStatus: reply.status)
        return TokenFailure(.loginRequired, problem: GatewayProblem(.reauthorizationRequired, detail, cause: cause))
    }

    /// A refusal of the request, where the refresh token may have ended as well: the login comes first, because the request has
    /// worked before. Unchanged where the authorization server's words say what is wrong with the request.
    func orLogin(_ failure: TokenFailure, _ reply: TokenReply) -> TokenFailure {
        let code = failure.problem.cause?.code ?? "other"
        guard advice(code, reply)?.marker == nil else { return failure }
        let text = Self.refreshAdvice[code] ?? Self.commonAdvice[code] ?? "check the credential."
        return .loginLikely(
            .reauthorizationRequired,
            what: "\(authority) refused to renew the token (\(code), status \(reply.status))",
            login: "the refresh token may have expired or been revoked, so log in again.",
            otherwise: text,
            cause: failure.problem.cause
        )
    }

    /// For a client that a login registers again; nil where the failure does not blame the client.
    func lostRegistration(_ failure: TokenFailure) -> TokenFailure? {
        guard let code = failure.problem.cause?.code, RefreshError.clientAuthenticationCodes.contains(code) else {
            return nil
        }
        return .loginLikely(
            .reauthorizationRequired,
            what: "\(authority) no longer knows the client (\(code))",
            login: "its registration may be lost, so log in with `authgateway login`, which registers it again.",
            otherwise: Self.commonAdvice[code] ?? "check the credential.",
            cause: failure.problem.cause
        )
    }

    private static let refreshAdvice = [
        "invalid_request": "a parameter is missing or wrong; some servers require the scope in a refresh as well, see"
            + " refresh_parameters.",
        "invalid_scope": "check scopes, and the scope in refresh_parameters.",
    ]

    /// With these Box's own clients log out.
    private static let needsAnother: Set<String> = [
        "unauthorized_device", "exceeded_device_limits", "missing_device_id", "unsupported_device_pinning_runtime",
        "account_deactivated",
    ]

    private func advice(_ code: String, _ reply: TokenReply) -> Advice? {
        let description = reply.document?["error_description"]?.string?.lowercased() ?? ""
        return advice.first { $0.code == code && ($0.marker.map(description.contains) ?? true) }
    }

    private func detail(_ reply: TokenReply, code: String?) -> String {
        let status = reply.status
        if (300..<400).contains(status) {
            return
                "\(authority) answered the token request with a redirect (status \(status)), which is never followed: "
                + "set token_url to the final address."
        }
        guard let code else {
            if status == 401, let clientAdvice {
                return "\(authority) refused the token request (status 401) without saying why: \(clientAdvice)"
            }
            if Self.isPage(reply) {
                return "\(authority) answered the token request with an HTML page instead of JSON (status \(status)):"
                    + " check token_url, or the proxy in between."
            }
            return "\(authority) refused the token request (status \(status)) without saying why: check token_url."
        }
        let ofClient = RefreshError.clientAuthenticationCodes.contains(code) ? clientAdvice : nil
        let text = advice(code, reply)?.text ?? ofClient ?? Self.commonAdvice[code] ?? "check the credential."
        let name = code == "other" ? "an unknown error code" : code
        return "\(authority) refused the token request (\(name), status \(status)): \(text)"
    }

    /// Whether the answer is meant for a browser.
    private static func isPage(_ reply: TokenReply) -> Bool {
        let begin = String(decoding: reply.body.prefix(256), as: UTF8.self).lowercased()
        return begin.contains("<html") || begin.contains("<!doctype html")
    }

    private static let personNeeded = "a person must confirm the login; a password is not enough."

    private static let commonAdvice = [
        "consent_required": personNeeded,
        "interaction_required": personNeeded,
        "mfa_required": personNeeded,
        "incorrect_client_credentials": "check client_id and client_secret.",
        "invalid_client": "check client_id, client_auth, and client_secret or the key.",
        "invalid_grant": "it does not accept the grant (a code, password or assertion).",
        "invalid_request": "a parameter is missing or wrong; some servers need more, see parameters.",
        "invalid_scope": "check scopes.",
        "invalid_target": "check the resource or audience in parameters.",
        "unauthorized_client": "it has not enabled this grant for the client.",
        "unsupported_grant_type": "it does not support this grant; check token_url.",
    ]
}
