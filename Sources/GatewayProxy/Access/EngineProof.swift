package import GatewayHTTP

/// Whether a request comes from the engine that a listener is for.
///
/// Each configured proof is asked for. Without one, the listener has checked the user of the peer.
struct EngineProof: Sendable {
    private let tokens: [SecretBytes]
    private let certificates: [CertificateName]

    init(_ plan: EnginePlan) {
        tokens = plan.tokens.map { SecretBytes($0.withValue { Array($0.utf8) }) }
        certificates = plan.certificates
    }

    /// - Parameter peer: The peer of the connection.
    func isGiven(
        by head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        peer: PeerIdentity?
    ) -> Bool {
        (tokens.isEmpty || hasToken(head, bytes)) && (certificates.isEmpty || isNamed(peer))
    }

    /// How long that takes tells nothing about how near a guess was.
    private func hasToken(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        var (isFound, count) = (false, 0)
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            guard case .other = field.kind, bytes.isToken(field.name, "x-gw-engine-token") else { continue }
            count += 1
            for token in tokens where token.withValue({ bytes.extracting(field.value).isSame(as: $0.span) }) {
                isFound = true
            }
        }
        return isFound && count == 1
    }

    private func isNamed(_ peer: PeerIdentity?) -> Bool {
        guard let peer else { return false }
        return peer.names.contains { name in certificates.contains { $0.matches(name) } }
    }

    static let refusal = GatewayProblem(
        .engineAuthRequired,
        "This listener is for one engine, which authenticates with \(EnginePlan.tokenField) or its certificate (listeners.authz)."
    )
}

extension EnginePlan.Contract {
    /// The status with which an engine is refused.
    ///
    /// nginx takes 401 and 403 for a refusal, and anything else for an error of its own. The others pass statuses of 4xx on. Of 5xx, 503
    /// is what each takes for an outage.
    package func status(of kind: ProblemKind) -> Int {
        switch kind.status {
        case 401, 407: 401
        case 400..<500: self == .nginx ? 403 : kind.status
        default: 503
        }
    }
}
