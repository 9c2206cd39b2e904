package import GatewayEvents
package import GatewayHTTP

/// Lending the token to credentials that are made from it.
extension TokenKeeper: ParentCredential {
    package func liveToken(
        for demand: CredentialRequest,
        within limit: Duration
    ) async -> Result<LiveToken, GatewayProblem> {
        let (answers, answer) = AsyncStream.makeStream(
            of: Result<Credential, GatewayProblem>.self,
            bufferingPolicy: .bufferingOldest(1)
        )
        let ticket = wait(for: demand) { answer.yield($0) }
        let late = GatewayProblem(.tokenEndpointTimeout, "The credential \(name) had no token in time.")
        let clock = context.clock
        let result = await withTaskGroup(of: Void.self) { group in
            group.addTask {
                do {
                    try await clock.sleep(for: limit)
                    answer.yield(.failure(late))
                } catch {
                    // There was an answer.
                }
            }
            var iterator = answers.makeAsyncIterator()
            let first = await iterator.next()
            group.cancelAll()
            return first ?? .failure(late)
        }
        cancel(ticket)
        return result.flatMap { _ in lend(else: late) }
    }

    /// A token that may not be handed out is not lent either: the credential may have been locked since the wait ended.
    private func lend(else problem: GatewayProblem) -> Result<LiveToken, GatewayProblem> {
        guard case .success(let held) = servedToken else { return .failure(lockedProblem ?? problem) }
        let token = LiveToken(
            generation: held.generation,
            access: held.token.access,
            expiresAt: held.token.expiresAt
        )
        return .success(token)
    }
}
