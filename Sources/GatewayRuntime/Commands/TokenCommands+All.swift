import GatewayAdmin
import GatewayCore

/// One operation on every credential that has a token.
extension TokenCommands {
    /// What came of it for one credential.
    private struct Outcome: Encodable, Sendable {
        enum Result: String, Encodable {
            case ok
            case failed
        }

        let credential: String
        let outcome: Result
        let message: String
    }

    private struct Selection: Sendable {
        let tokens: [TokenStatus]
        /// The credentials with a token for each subject, which are locked whole.
        let perSubject: [String]
    }

    /// - Parameter locks: Lock every credential first, those without a token too.
    /// - Returns: What is for standard output, and the credentials for which it failed.
    package func performOnAll(
        _ verb: Verb,
        locking locks: Bool = false
    ) async throws(CommandFailure) -> (output: String, failed: [String]) {
        let work = { (gateway: Backend) async throws(CommandFailure) in
            let selection = Selection(
                tokens: try await gateway.ask(AdminAPI.tokens),
                perSubject: try await gateway.ask(AdminAPI.overview).perSubjectCredentials
            )
            return await Self.outcomes(of: verb, on: selection, locks, gateway)
        }
        // A gateway renews by itself when it starts.
        let outcomes = verb == .refresh ? try await work(.running(client)) : try await reaching(work)
        let failed = outcomes.filter { $0.outcome == .failed }.map(\.credential)
        if asJSON { return (try JSONText.pretty(outcomes), failed) }
        guard !outcomes.isEmpty else { return ("No credential has a token.\n", []) }
        return (Self.table(of: outcomes), failed)
    }

    private static func outcomes(
        of verb: Verb,
        on selection: Selection,
        _ locks: Bool,
        _ gateway: Backend
    ) async -> [Outcome] {
        var outcomes: [Outcome] = []
        let tokens = selection.tokens.filter { !selection.perSubject.contains($0.credential) }
        // All of them at once out of use, before the first authority is waited for.
        if locks {
            for name in selection.perSubject { outcomes.append(await outcome(.lock, name, gateway)) }
            let single = tokens.filter { !selection.perSubject.contains($0.perSubjectCredential ?? "") }
            for token in single { outcomes.append(await outcome(.lock, token.credential, gateway)) }
        }
        for token in descendantsFirst(tokens) where token.state != .empty {
            // Locked above, if at all: it has no token.
            if token.isStatic == true, verb != .lock, verb != .unlock { continue }
            // What nothing renews has no use for it.
            if verb == .refresh, !token.isRenewable { continue }
            outcomes.append(await outcome(verb, token.credential, gateway))
        }
        return outcomes
    }

    private static func outcome(_ verb: Verb, _ name: String, _ gateway: Backend) async -> Outcome {
        do throws(CommandFailure) {
            let report = try await gateway.ask(verb.operation, of: name)
            return Outcome(credential: name, outcome: .ok, message: report.message)
        } catch {
            return Outcome(credential: name, outcome: .failed, message: error.description)
        }
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

    private static func table(of outcomes: [Outcome]) -> String {
        outcomes.map { outcome in
            let message = LogText.clean(outcome.message.replacing("\n", with: "; "))
            return outcome.outcome == .ok
                ? "\(message)\n" : "\(LogText.clean(outcome.credential)): failed: \(message)\n"
        }.joined()
    }
}
