import GatewayHTTP
import ServiceLifecycle

/// Carries out one attempt, step by step: calls the authorization server, or runs the program.
struct AuthorityCall {
    enum Outcome {
        /// - Parameters:
        ///   - reply: nil for a token that the grant made itself.
        ///   - isSpent: See ``GrantAttempt/isRefreshTokenSpent``.
        case token(TokenSet, reply: TokenReply?, took: Duration, isSpent: Bool)
        case parentRefused(TokenFailure, TokenReply, took: Duration)
        case failure(Failed)
    }

    struct Failed {
        let failure: TokenFailure
        var reply: TokenReply?
        let code: String?
        let refreshToken: RefreshTokenState
        let took: Duration
    }

    let context: KeeperContext

    /// Takes all steps of an attempt, within one deadline.
    func perform(_ first: GrantStep, in begun: GrantAttempt) async -> Outcome {
        switch first {
        case .request(let request): return await ask(from: .request(request), in: begun)
        case .run(let program): return await ask(from: .program(program), in: begun)
        case .token(let token):
            guard let live = live(token, at: begun.now.wall) else {
                return Self.failed(.deadOnArrival(credential: context.name))
            }
            return .token(live, reply: nil, took: .zero, isSpent: false)
        case .impossible(let failure): return Self.failed(failure)
        }
    }

    /// The outcome of a step that sends nothing.
    private static func failed(_ failure: TokenFailure) -> Outcome {
        let code = failure.problem.cause?.code
        return .failure(Failed(failure: failure, code: code, refreshToken: RefreshTokenState(), took: .zero))
    }

    private enum Question {
        case request(TokenRequest)
        case program(TokenProgram)

        /// The server that it asks, as `Proxy-Status` names it; nil for a program.
        var nextHop: String? { if case .request(let request) = self { request.nextHop } else { nil } }
        /// See ``TokenRequest/secrets``.
        var secrets: [Secret] { if case .request(let request) = self { request.secrets } else { [] } }
    }

    private func ask(from first: Question, in begun: GrantAttempt) async -> Outcome {
        var (attempt, question) = (begun, first)
        var refreshToken = RefreshTokenState()
        let start = begun.now.monotonic
        while true {
            let left = TokenKeeper.callDeadline - (attempt.now.monotonic - start)
            let sendsRefreshToken = context.grant.sendsRefreshToken(in: attempt)
            let answer = await answer(to: question, within: max(left, .milliseconds(1)))
            attempt.now = context.clock.now()
            attempt.answers += 1
            let duration = attempt.now.monotonic - start
            switch answer {
            case .failure(let failure):
                refreshToken.takeNoAnswer(
                    mayHaveBeenProcessed: failure.mayHaveBeenProcessed,
                    wasSent: sendsRefreshToken
                )
                let (explained, code) = (failure.explained, failure.code)
                return .failure(Failed(failure: explained, code: code, refreshToken: refreshToken, took: duration))
            case .success(let reply):
                let meaning = context.grant.interpret(reply, in: &attempt)
                context.log(&attempt.remarks)
                refreshToken.take(reply, meaning, in: attempt, wasSent: sendsRefreshToken)
                let hop = question.nextHop
                let named = { (failure: TokenFailure) in
                    failure.naming(hop, context.said(reply, to: question.secrets, in: attempt))
                }
                let failed = { (failure: TokenFailure) in
                    let code = failure.problem.cause?.code
                    return Outcome.failure(
                        Failed(
                            failure: named(failure),
                            reply: reply,
                            code: code,
                            refreshToken: refreshToken,
                            took: duration
                        )
                    )
                }
                switch meaning {
                case .next(let next) where attempt.answers < GrantAttempt.maximumSteps: question = .request(next)
                case .next: return failed(.endless(credential: context.name))
                case .parentRefused(let failure): return .parentRefused(named(failure), reply, took: duration)
                case .failure(let failure): return failed(failure)
                case .token(let token):
                    guard let live = live(token, at: attempt.now.wall) else {
                        return failed(.deadOnArrival(credential: context.name))
                    }
                    return .token(live, reply: reply, took: duration, isSpent: attempt.isRefreshTokenSpent)
                }
            }
        }
    }

    /// - Returns: nil if the token has already expired.
    private func live(_ token: TokenSet, at now: UnixTime) -> TokenSet? {
        let arrived = ArrivedToken(token, by: context.grant, at: now)
        if let remark = arrived.remark {
            var remarks = [remark]
            context.log(&remarks)
        }
        return arrived.usable
    }

    /// At shutdown no request waits any more, so a call is cancelled, unless it spends a refresh token.
    private func answer(to question: Question, within deadline: Duration) async -> Result<TokenReply, NoAnswer> {
        guard !context.grant.rotatesRefreshToken else { return await ask(question, deadline: deadline) }
        return await cancelWhenGracefulShutdown { await ask(question, deadline: deadline) }
    }

    /// Neither the server nor the program answered, and what this means for the credential.
    private struct NoAnswer: Error {
        let explained: TokenFailure
        let code: String?
        let mayHaveBeenProcessed: Bool
    }

    private func ask(_ question: Question, deadline: Duration) async -> Result<TokenReply, NoAnswer> {
        switch question {
        case .request(let request):
            return await context.endpoint.send(request, deadline: deadline).mapError { failure in
                NoAnswer(
                    explained: TokenFailure(explaining: failure, of: request, credential: context.name),
                    code: failure.reason.rawValue,
                    mayHaveBeenProcessed: failure.mayHaveBeenProcessed
                )
            }
        case .program(let program):
            let deadline = min(deadline, program.timeout)
            let output = await context.programs.run(program, input: nil, deadline: deadline)
            return output.map { TokenReply(output: $0) }.mapError { failure in
                NoAnswer(
                    explained: TokenFailure(explaining: failure, of: program, credential: context.name),
                    code: failure.reason.rawValue,
                    mayHaveBeenProcessed: false
                )
            }
        }
    }
}
