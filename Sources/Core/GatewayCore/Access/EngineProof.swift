/// Whether a request comes from the engine that a listener is for.
package struct EngineProof: Sendable {
    private let tokens: [SecretBytes]

    package init(_ plan: EnginePlan) {
        tokens = plan.tokens.map { SecretBytes($0.withValue { Array($0.utf8) }) }
    }

    /// Where no token is configured, the listener has let in nobody else: by the user of the peer, or by its certificate.
    ///
    /// How long that takes tells nothing about how near a guess was.
    package func isGiven(by head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        guard !tokens.isEmpty else { return true }
        var (found, count) = (false, 0)
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            guard case .other = field.kind, bytes.equalsLowercased(field.name, "x-gw-engine-token") else { continue }
            count += 1
            for token in tokens where token.withValue({ bytes.extracting(field.value).isSame(as: $0.span) }) {
                found = true
            }
        }
        return found && count == 1
    }

    package static let refusal = GatewayProblem(
        .engineAuthRequired,
        "This listener is for one engine, which sends its token in \(EnginePlan.tokenField) (listeners.authz)."
    )
}
