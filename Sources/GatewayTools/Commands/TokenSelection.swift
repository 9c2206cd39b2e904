import ArgumentParser
import GatewayApp
import GatewayTokens

/// One token or all of them, for the commands that need no more than that.
struct TokenSelection: ParsableArguments {
    @Argument(help: "The credential, as `token list` names it.")
    var name: String?

    @Flag(name: .customLong("all"), help: "Every credential that has a token; asks nothing.")
    var isAll = false

    @OptionGroup var gateway: RunningGatewayOptions

    func validate() throws {
        if name != nil, isAll { throw ValidationError("NAME and --all cannot be combined.") }
        if name == nil, !isAll { throw ValidationError("Name a credential, or say --all.") }
    }

    enum Verb: Sendable {
        case refresh
        case revoke
        case clear

        fileprivate var operation: AdminAPI.Operation<OperationReport> {
            switch self {
            case .refresh: AdminAPI.refresh
            case .revoke: AdminAPI.revoke
            case .clear: AdminAPI.clear
            }
        }
    }

    /// - Parameter locks: Lock first.
    func perform(_ verb: Verb, locking locks: Bool = false) async throws(CommandFailure) {
        let tokens = try TokenGateway(gateway)
        guard let name else { return try await performOnAll(verb, locking: locks, tokens) }
        let report: OperationReport
        if locks {
            report = try await destroy(name, tokens)
        } else if verb == .refresh {
            // A gateway renews by itself when it starts.
            report = try await tokens.client.ask(AdminAPI.refresh, of: name)
        } else {
            report = try await tokens.perform(verb.operation, on: name)
        }
        Console.write(try gateway.json.text(of: report, or: report.line))
    }

    /// Stops the credential first, then has the authority forget its token.
    private func destroy(_ name: String, _ tokens: TokenGateway) async throws(CommandFailure) -> OperationReport {
        let locked = try await tokens.perform(AdminAPI.lock, on: name, mayBegin: true)
        do throws(CommandFailure) {
            return try await tokens.perform(AdminAPI.revoke, on: name)
        } catch {
            if !gateway.json.isOn { Console.writeError(locked.line) }
            throw error
        }
    }

    // MARK: Every credential that has a token

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

    /// Whose tokens there are.
    private struct Credentials: Sendable {
        let tokens: [TokenStatus]
        /// The credentials with a token for each subject, which are locked whole.
        let perSubject: [String]
    }

    /// - Parameter locks: Lock every credential first, those without a token too.
    private func performOnAll(
        _ verb: Verb,
        locking locks: Bool,
        _ tokens: TokenGateway
    ) async throws(CommandFailure) {
        let work = { (gateway: TokenGateway.Backend) async throws(CommandFailure) in
            let credentials = Credentials(
                tokens: try await gateway.ask(AdminAPI.tokens),
                perSubject: try await gateway.ask(AdminAPI.overview).perSubjectCredentials
            )
            return await Self.outcomes(of: verb, on: credentials, locks, gateway)
        }
        // A gateway renews by itself when it starts.
        let outcomes = verb == .refresh ? try await work(.running(tokens.client)) : try await tokens.reach(work)
        let none = "No credential has a token.\n"
        Console.write(try gateway.json.text(of: outcomes, or: outcomes.isEmpty ? none : Self.table(of: outcomes)))
        try CommandFailure.require(noneOf: outcomes.filter { $0.outcome == .failed }.map(\.credential))
    }

    private static func outcomes(
        of verb: Verb,
        on credentials: Credentials,
        _ locks: Bool,
        _ gateway: TokenGateway.Backend
    ) async -> [Outcome] {
        var outcomes: [Outcome] = []
        let tokens = credentials.tokens.filter { !credentials.perSubject.contains($0.credential) }
        // All of them at once out of use, before the first authority is waited for.
        if locks {
            for name in credentials.perSubject { outcomes.append(await outcome(AdminAPI.lock, name, gateway)) }
            let single = tokens.filter { !credentials.perSubject.contains($0.perSubjectCredential ?? "") }
            for token in single { outcomes.append(await outcome(AdminAPI.lock, token.credential, gateway)) }
        }
        for token in descendantsFirst(tokens) where token.state != .empty {
            // Locked above, if at all: it has no token.
            if token.isStatic == true { continue }
            // What nothing renews has no use for it.
            if verb == .refresh, !token.isRenewable { continue }
            outcomes.append(await outcome(verb.operation, token.credential, gateway))
        }
        return outcomes
    }

    private static func outcome(
        _ operation: AdminAPI.Operation<OperationReport>,
        _ name: String,
        _ gateway: TokenGateway.Backend
    ) async -> Outcome {
        do throws(CommandFailure) {
            let report = try await gateway.ask(operation, of: name)
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
