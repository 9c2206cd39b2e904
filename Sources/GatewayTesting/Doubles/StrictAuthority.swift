package import GatewayCore

/// An authority whose refresh tokens are valid once. It counts those that come again.
package final class StrictAuthority: TokenEndpoint {
    private struct State: Sendable {
        var accepted: String?
        /// The one before, whose answer was lost: it is accepted once more.
        var forgiven: String?
        var issued = 0
        package var calls = 0
        var refusals = 0
    }

    private let state: Watched<State>

    package init(accepting refreshToken: Secret?) {
        state = Watched(State(accepted: refreshToken?.withValue { $0 }))
    }

    package var calls: Int { state.value.calls }
    package var issued: Int { state.value.issued }
    package var refusals: Int { state.value.refusals }

    /// Accepts this refresh token alone from now on; nil ends the login.
    package func accept(_ refreshToken: Secret?) {
        state.update { state in
            state.accepted = refreshToken?.withValue { $0 }
            state.forgiven = nil
        }
    }

    /// - Parameter forgets: The answer will be lost, so the same refresh token is accepted again.
    package func answer(_ request: TokenRequest, losingAnswer forgets: Bool = false) -> TokenReply {
        var sent: String?
        if case .form(let parameters) = request.body {
            sent = parameters.first { $0.name == "refresh_token" }?.value.withValue { $0 }
        }
        let issued: Int? = state.update { state in
            state.calls += 1
            guard sent == nil || sent == state.accepted || sent == state.forgiven else {
                state.refusals += 1
                return nil
            }
            state.issued += 1
            state.accepted = "refresh-\(state.issued)"
            state.forgiven = forgets ? sent : nil
            return state.issued
        }
        guard let issued else {
            return TokenReply(status: 400, body: Array(#"{"error":"invalid_grant"}"#.utf8))
        }
        let refresh = sent == nil ? "" : #","refresh_token":"refresh-\#(issued)""#
        let body = #"{"access_token":"access-\#(issued)","expires_in":3600\#(refresh)}"#
        return TokenReply(status: 200, body: Array(body.utf8))
    }

    package func send(
        _ request: TokenRequest,
        deadline: Duration
    ) async -> Result<TokenReply, TokenTransportFailure> {
        .success(answer(request))
    }
}
