package import GatewayHTTP
package import GatewayTokens

/// A token endpoint that answers from a script and remembers what it was asked.
package final class ScriptedTokenEndpoint: TokenEndpoint {
    package enum Answer: Sendable {
        case reply(TokenReply)
        case failure(TokenTransportFailure)
        /// No answer until ``release(_:)``.
        case held
    }

    private struct State: Sendable {
        var script: [Answer]
        var otherwise: (@Sendable (TokenRequest, Int) -> Answer)?
        var requests: [TokenRequest] = []
        var deadlines: [Duration] = []
        var released: [Answer] = []
        var heldNow = 0
    }

    private let state: Watched<State>

    package init(_ script: [Answer] = []) { state = Watched(State(script: script)) }

    /// Answers every request with `answer(request, count)` once the script has run out; `count` starts at 1.
    package init(always answer: @escaping @Sendable (TokenRequest, Int) -> Answer) {
        state = Watched(State(script: [], otherwise: answer))
    }

    package var requests: [TokenRequest] { state.value.requests }
    package var deadlines: [Duration] { state.value.deadlines }
    package var heldNow: Int { state.value.heldNow }

    package func append(_ answers: Answer...) { state.update { $0.script += answers } }

    /// Answers one held request, now or as soon as there is one.
    package func release(_ answer: Answer) { state.update { $0.released.append(answer) } }

    package func untilAsked(_ count: Int) async throws { try await state.until { $0.requests.count >= count } }
    package func untilHeld() async throws { try await state.until { $0.heldNow > 0 } }

    package func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        let answer: Answer = state.update { state in
            state.requests.append(request)
            state.deadlines.append(deadline)
            guard state.script.isEmpty else { return state.script.removeFirst() }
            return state.otherwise?(request, state.requests.count)
                ?? .failure(TokenTransportFailure(.connectionRefused, mayHaveBeenProcessed: false))
        }
        switch answer {
        case .reply(let reply): return .success(reply)
        case .failure(let failure): return .failure(failure)
        case .held: return await heldAnswer()
        }
    }

    private func heldAnswer() async -> Result<TokenReply, TokenTransportFailure> {
        state.update { $0.heldNow += 1 }
        defer { state.update { $0.heldNow -= 1 } }
        let lost = TokenTransportFailure(.connectionLost, mayHaveBeenProcessed: true)
        do {
            while true {
                try await state.until(within: .seconds(120)) { !$0.released.isEmpty }
                let answer = state.update { $0.released.isEmpty ? nil : $0.released.removeFirst() }
                switch answer {
                case .reply(let reply): return .success(reply)
                case .failure(let failure): return .failure(failure)
                case .held, nil: continue
                }
            }
        } catch {
            return .failure(lost)
        }
    }
}

extension ScriptedTokenEndpoint.Answer {
    /// 200 with JSON.
    package static func json(_ body: String, status: Int = 200, fields: [TokenReply.Field] = []) -> Self {
        .reply(
            TokenReply(
                status: status,
                fields: [.init(name: "Content-Type", value: "application/json")] + fields,
                body: Array(body.utf8)
            )
        )
    }

    /// An answer as RFC 6749 §5.1 describes it.
    package static func token(_ access: String, expiresIn: Int? = nil, refresh: String? = nil) -> Self {
        var members = [#""access_token":"\#(access)""#, #""token_type":"bearer""#]
        if let expiresIn { members.append(#""expires_in":\#(expiresIn)"#) }
        if let refresh { members.append(#""refresh_token":"\#(refresh)""#) }
        return .json("{\(members.joined(separator: ","))}")
    }

    /// An answer as RFC 6749 §5.2 describes it.
    package static func error(_ code: String, status: Int = 400) -> Self {
        .json(#"{"error":"\#(code)","error_description":"canary-description"}"#, status: status)
    }
}

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
