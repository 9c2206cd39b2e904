import GatewayHTTP
import Synchronization

/// A command of an operator. The keeper's loop carries it out between calls and answers it once.
final class OperatorCommand: Sendable {
    /// A sentence for the operator, or why not.
    typealias Outcome = Result<String, GatewayProblem>

    struct Completion: Sendable {
        var outcome: Outcome
        /// The descendants' commands that have to end before the operator is answered.
        var drops: [OperatorCommand] = []
    }

    enum Kind: Sendable {
        case refresh
        case revoke
        case clear
        case `import`(ImportedToken)
        case login(TokenSet)
        /// The token that this one was made from is forgotten.
        case drop

        /// Takes a right away, so it is carried out even after its caller has given up.
        var isWithdrawal: Bool {
            switch self {
            case .revoke, .clear, .drop: true
            case .refresh, .import, .login: false
            }
        }
    }

    let kind: Kind
    private let completion = Promise<Completion>()
    private let begun = Atomic(false)

    init(_ kind: Kind) { self.kind = kind }

    var hasBegun: Bool { begun.load(ordering: .relaxed) }

    /// - Returns: false when its caller has stopped waiting.
    func begin() -> Bool {
        guard kind.isWithdrawal || !completion.isKept else { return false }
        begun.store(true, ordering: .relaxed)
        return true
    }

    func finish(_ outcome: Outcome, dropping drops: [OperatorCommand] = []) {
        completion.keep(Completion(outcome: outcome, drops: drops))
    }

    func end() async -> Completion { await completion.value() }
}
