/// Told of every finished exchange and every refused client, on the event loop it ran on. Must return at once.
package protocol ExchangeObserver: Sendable {
    func finished(_ record: borrowing ExchangeRecord)
    /// A client was refused: no token, a wrong one, or a route that it may not use.
    func denied(_ demand: CredentialRequest?, requestID: String, reason: ProblemKind)
}
