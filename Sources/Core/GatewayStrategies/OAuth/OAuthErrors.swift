import GatewayCore

/// What the answers of one token endpoint mean (RFC 6749 §5), and what a person can do about the bad ones.
///
/// The authority's own words choose the advice; they are never repeated.
struct OAuthErrors: Sendable {
    struct Advice: Sendable {
        let code: String
        /// Lower case; looked for in `error_description`. nil takes any description.
        var marker: String?
        let text: String
    }

    /// Who answered, as a sentence begins: `Box`, `The authority`.
    let authority: String
    /// The first that fits is given, so those with a marker stand before those without.
    let advice: [Advice]
    /// Values of `token_type`, in lower case, of tokens that can be sent behind `Bearer`.
    var tokenTypes: Set<String> = ["bearer"]

    static let standard = OAuthErrors(authority: "The authority", advice: [])

    /// The access token alone; a refresh token beside it is left out.
    func answer(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let now = attempt.now
        return GrantAnswer(read(reply, in: &attempt).map { $0.tokenSet(at: now) })
    }

    /// - Parameter rotatesRefreshToken: Whether it comes for something that can be presented only once.
    func read(
        _ reply: TokenReply,
        in attempt: inout GrantAttempt,
        rotatesRefreshToken: Bool = false
    ) -> Result<OAuthTokenResponse, TokenFailure> {
        let result = read(reply, at: attempt.now, rotatesRefreshToken: rotatesRefreshToken)
        if case .success(let answer) = result { attempt.remarks += answer.remarks }
        return result
    }

    func read(
        _ reply: TokenReply,
        at now: Moment,
        rotatesRefreshToken: Bool = false
    ) -> Result<OAuthTokenResponse, TokenFailure> {
        let answer = JSONValue(reply.body, forgivingNumbers: rotatesRefreshToken)
        guard (200..<300).contains(reply.status), answer?["error"].isPresent != true else {
            return .failure(failure(reply, answer, at: now))
        }
        if let type = answer?["token_type"], type != .null, !accepts(type) {
            return .failure(wrongType(type, status: reply.status))
        }
        do throws(BrokenAnswer) {
            return .success(try OAuthTokenResponse(answer, rotatesRefreshToken: rotatesRefreshToken))
        } catch {
            return .failure(error.failure(of: authority, status: reply.status))
        }
    }

    private func accepts(_ type: JSONValue) -> Bool {
        type.string.map { tokenTypes.contains($0.lowercased()) } ?? false
    }

    /// A MAC or DPoP token behind `Bearer` would be refused by every upstream, or do without its proof.
    private func wrongType(_ type: JSONValue, status: Int) -> TokenFailure {
        let name = type.string.map { $0.lowercased() } ?? ""
        let shown = ["mac", "dpop", "pop", "n_a"].contains(name) ? " (\(name))" : ""
        return TokenFailure(
            .terminal,
            problem: GatewayProblem(
                .credentialMisconfigured,
                "\(authority) gave a token whose token_type is not Bearer\(shown), so it cannot be sent as one: have the "
                    + "client set up for bearer tokens there.",
                cause: GatewayProblem.Cause(httpStatus: status)
            )
        )
    }

    private func failure(_ reply: TokenReply, _ answer: JSONValue?, at now: Moment) -> TokenFailure {
        let code = OAuthErrorCode.allowListed(answer?["error"]?.string)
        let cause = GatewayProblem.Cause(code: code, httpStatus: reply.status)
        if isTransient(reply.status) || code.map(transientCodes.contains) == true {
            return TokenFailure(
                .transient(retryAfter: reply.retryAfter(at: now)),
                problem: GatewayProblem(
                    .tokenTemporarilyUnavailable,
                    "\(authority) gives no token at the moment (status \(reply.status)); the gateway tries again.",
                    cause: cause,
                    retryAfter: reply.retryAfter(at: now)
                )
            )
        }
        let detail = detail(
            status: reply.status,
            code: code,
            description: answer?["error_description"]?.string?.lowercased() ?? ""
        )
        return TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail, cause: cause))
    }

    private func isTransient(_ status: Int) -> Bool {
        switch status {
        case 408, 421, 423, 425, 429, 500...599: true
        default: false
        }
    }

    private func detail(status: Int, code: String?, description: String) -> String {
        if (300..<400).contains(status) {
            return
                "\(authority) answered the token request with a redirect (status \(status)), which is never followed: "
                + "set token_url to the final address."
        }
        guard let code else {
            return "\(authority) refused the token request (status \(status)) without saying why: check token_url."
        }
        let found = advice.first { $0.code == code && ($0.marker.map(description.contains) ?? true) }
        let text = found?.text ?? Self.commonAdvice[code] ?? "check the credential."
        let name = code == "other" ? "an error of its own" : code
        return "\(authority) refused the token request (\(name), status \(status)): \(text)"
    }

    private static let commonAdvice = [
        "invalid_client": "check client_id, client_auth, and client_secret or the key.",
        "invalid_grant": "the authority does not accept what was presented for a token.",
        "invalid_request": "a parameter is missing or wrong; some authorities need more, see parameters.",
        "invalid_scope": "check scopes.",
        "invalid_target": "check the resource or audience in parameters.",
        "unauthorized_client": "the authority has not enabled this grant for the client.",
        "unsupported_grant_type": "the authority does not know this grant; check token_url.",
    ]
}

private let transientCodes: Set<String> = ["server_error", "temporarily_unavailable", "slow_down"]

extension JSONValue? {
    /// `"error": null` and no `error` at all are the same.
    fileprivate var isPresent: Bool {
        switch self {
        case nil, .null?: false
        default: true
        }
    }
}
