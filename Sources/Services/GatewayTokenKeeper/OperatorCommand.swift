import GatewayCore
import Synchronization

/// A command of an operator. The keeper's loop carries it out between calls and answers it once.
final class OperatorCommand: Sendable {
    /// A sentence for the operator, or why not.
    typealias Outcome = Result<String, GatewayProblem>

    enum Kind: Sendable {
        case operation(TokenOperation)
        case login(TokenSet)
        /// The token that this one was made from is forgotten.
        case drop
    }

    let kind: Kind
    private let outcome = Promise<Outcome>()
    private let begun = Atomic(false)

    init(_ kind: Kind) { self.kind = kind }

    var hasBegun: Bool { begun.load(ordering: .relaxed) }

    /// - Returns: false when nobody waits for it any more.
    func begin() -> Bool {
        guard !outcome.isKept else { return false }
        begun.store(true, ordering: .relaxed)
        return true
    }

    func finish(_ outcome: Outcome) { self.outcome.keep(outcome) }
    func end() async -> Outcome { await outcome.value() }
}
