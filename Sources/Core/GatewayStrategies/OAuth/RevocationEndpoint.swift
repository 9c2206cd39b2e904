import GatewayCore

/// Where a client ends its tokens (RFC 7009).
struct RevocationEndpoint: Sendable {
    let url: AuthorityURL
    /// Whether the authority has a word for the kind of a token (RFC 7009 §2.1).
    var hintsTokenType = true

    /// The refresh token where there is one: ending it ends what it could have bought (RFC 7009 §2.1).
    fileprivate func step(as client: ClientAuthentication?, in attempt: GrantAttempt) -> RevocationStep {
        guard let token = attempt.held else { return .impossible("There is no token.") }
        var form = [TokenRequest.Parameter("token", token.renewal ?? token.access)]
        if hintsTokenType {
            let kind = token.renewal == nil ? "access_token" : "refresh_token"
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

extension ConfigFields {
    /// `revoke_url`.
    func revocationEndpoint() -> RevocationEndpoint? { authorityURL("revoke_url").map { RevocationEndpoint(url: $0) } }
}
