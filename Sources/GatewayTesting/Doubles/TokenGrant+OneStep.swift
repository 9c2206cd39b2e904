package import GatewayCore

/// For tests of grants that ask once.
extension TokenGrant {
    package func firstStep(holding token: TokenSet?, at now: Moment = .sample) -> GrantStep {
        firstStep(of: .sample(holding: token, at: now))
    }

    /// What an answer to the first step means; a further step is a failure of the test.
    package func interpret(
        _ reply: TokenReply,
        holding token: TokenSet?,
        at now: Moment
    ) -> Result<TokenSet, TokenFailure> {
        var attempt = GrantAttempt.sample(holding: token, at: now)
        attempt.answers = 1
        switch interpret(reply, in: &attempt) {
        case .token(let token): return .success(token)
        case .failure(let failure), .parentRefused(let failure): return .failure(failure)
        case .next:
            return .failure(TokenFailure(.terminal, problem: GatewayProblem(.internalError, "asks for a further step")))
        }
    }
}

extension TokenGrant {
    /// What the revocation of a token begins with; nil when there is no endpoint.
    package func revocation(of token: TokenSet, at now: Moment = .sample) -> TokenRequest? {
        guard case .request(let request) = revocation(in: .sample(holding: token, at: now)) else { return nil }
        return request
    }
}

extension Moment {
    package static var sample: Moment {
        Moment(monotonic: MonotonicTime(nanoseconds: 5_000_000_000), wall: UnixTime(seconds: 1_772_357_400))
    }
}

extension GrantAttempt {
    /// With a nonce and a parent's token that are always the same.
    package static func sample(holding token: TokenSet?, at now: Moment) -> GrantAttempt {
        var attempt = GrantAttempt(holding: token, at: now, nonce: .sampleNonce)
        attempt.parentToken = Secret("canary-parent-token")
        return attempt
    }
}

extension String {
    package static var sampleNonce: String { "0123456789abcdef0123456789abcdef" }
}
