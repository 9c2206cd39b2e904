import GatewayCore

/// Where a client ends its tokens (RFC 7009).
struct RevocationEndpoint: Sendable {
    let url: AuthorityURL
    /// Whether the authority has a word for the kind of a token (RFC 7009 §2.1).
    var hintsTokenType = true

    /// The refresh token where there is one: ending it ends what it could have bought (RFC 7009 §2.1).
    fileprivate func step(as client: ClientAuthentication?, in attempt: GrantAttempt) -> RevocationStep {
        guard let token = attempt.held else { return .impossible("There is no token.") }
        var form = [TokenRequest.Parameter("token", token.refreshToken ?? token.access)]
        if hintsTokenType {
            let kind = token.refreshToken == nil ? "access_token" : "refresh_token"
            form.append(TokenRequest.Parameter("token_type_hint", kind))
        }
        let request = TokenRequest(url: url, body: .form(form))
        do throws(TokenFailure) {
            return .request(try client?.authenticate(request, in: attempt) ?? request)
        } catch {
            return .impossible(error.problem.detail)
        }
    }
}

extension RevocationEndpoint? {
    /// - Parameter client: Who asks; nil where the authority knows no clients.
    func step(as client: ClientAuthentication?, in attempt: GrantAttempt) -> RevocationStep {
        self?.step(as: client, in: attempt) ?? .impossible("The credential has no revoke_url; add it.")
    }
}

extension ClientAuthentication? {
    /// What the answer to a revocation means.
    ///
    /// - Parameter sign: Makes the request anew in an attempt whose time is that of the authority.
    func answerToRevocation(
        _ reply: TokenReply,
        in attempt: GrantAttempt,
        sign: (GrantAttempt) -> RevocationStep
    ) -> RevocationAnswer {
        switch self?.repair(after: reply, in: attempt, sign: { GrantStep(sign($0)) }) {
        case .next(let request): .next(request)
        case .failure(let failure): .failure(failure.problem)
        case .token, .parentRefused, nil: RevocationAnswer(reply)
        }
    }
}

extension GrantStep {
    fileprivate init(_ step: RevocationStep) {
        switch step {
        case .request(let request): self = .request(request)
        case .impossible(let reason):
            self = .impossible(TokenFailure(.terminal, problem: GatewayProblem(.requestRefused, reason)))
        }
    }
}

extension ConfigFields {
    /// `revoke_url`.
    func revocationEndpoint() -> RevocationEndpoint? { authorityURL("revoke_url").map { RevocationEndpoint(url: $0) } }
}
