package import GatewayTokens

/// An operation on one credential or on all, as steps in an order that leaves no token in use which should not be.
package struct TokenSweep: Sendable {
    package struct Step: Sendable {
        package let operation: AdminAPI.Operation<OperationReport>
        package let credential: String
    }

    /// What came of a step.
    package struct Outcome: Encodable, Sendable {
        package enum Result: String, Encodable, Sendable {
            case ok
            case failed
        }

        package let credential: String
        package let outcome: Result
        package let message: String
    }

    package let steps: [Step]

    /// - Parameter locks: Whether the credential is stopped first, so that it is not used while an authority is waited for.
    package init(_ operation: AdminAPI.Operation<OperationReport>, on credential: String, locking locks: Bool) {
        let operations = locks ? [AdminAPI.operations.lock, operation] : [operation]
        steps = operations.map { Step(operation: $0, credential: credential) }
    }

    /// - Parameters:
    ///   - tokens: What ``AdminAPI/tokens`` answers.
    ///   - perSubject: The credentials with a token for each subject, which are locked whole.
    ///   - locks: Lock every credential first, those without a token too.
    package init(
        _ operation: AdminAPI.Operation<OperationReport>,
        onAllOf tokens: [TokenStatus],
        perSubject: [String],
        locking locks: Bool
    ) {
        let tokens = tokens.filter { !perSubject.contains($0.credential) }
        var locked: [String] = []
        if locks {
            // All of them at once out of use, before the first authority is waited for.
            let single = tokens.filter { !perSubject.contains($0.perSubjectCredential ?? "") }
            locked = perSubject + single.map(\.credential)
        }
        let held = Self.descendantsFirst(tokens).filter { token in
            // A static credential was locked above, if at all: it has no token. What nothing renews has no use for a renewal.
            token.state != .empty && token.isStatic != true && (!operation.renews || token.isRenewable)
        }
        steps =
            locked.map { Step(operation: AdminAPI.operations.lock, credential: $0) }
            + held.map { Step(operation: operation, credential: $0.credential) }
    }

    /// Carries out the steps. One failure does not stop the rest.
    package func outcomes<Failure: Error & CustomStringConvertible>(
        _ perform: (AdminAPI.Operation<OperationReport>, _ credential: String) async throws(Failure) -> OperationReport
    ) async -> [Outcome] {
        var outcomes: [Outcome] = []
        for step in steps {
            let name = step.credential
            do throws(Failure) {
                let report = try await perform(step.operation, name)
                outcomes.append(Outcome(credential: name, outcome: .ok, message: report.message))
            } catch {
                outcomes.append(Outcome(credential: name, outcome: .failed, message: error.description))
            }
        }
        return outcomes
    }

    /// Once a parent's token is gone, what was made from it is only forgotten, and lives on at its authority.
    private static func descendantsFirst(_ tokens: [TokenStatus]) -> [TokenStatus] {
        let parents = Dictionary(tokens.map { ($0.credential, $0.parent) }) { first, _ in first }
        func depth(_ token: TokenStatus) -> Int {
            var (depth, ancestor) = (0, token.parent)
            while let name = ancestor, depth <= tokens.count { (depth, ancestor) = (depth + 1, parents[name] ?? nil) }
            return depth
        }
        let deepest = tokens.map { ($0, depth($0)) }
        return deepest.enumerated().sorted {
            ($1.element.1, $0.offset) < ($0.element.1, $1.offset)
        }.map(\.element.0)
    }
}
