import ArgumentParser
import GatewayApp
import GatewayTokens

/// One token or all of them, for the commands that need no more than that.
struct TokenSelection: ParsableArguments {
    @Argument(help: "The credential, as `token list` names it.")
    var name: String?

    @Flag(name: .customLong("all"), help: "Every credential that has a token, without confirmation.")
    var isAll = false

    @OptionGroup var gateway: RunningGatewayOptions

    func validate() throws {
        if name != nil, isAll { throw ValidationError("NAME and --all cannot be combined.") }
        if name == nil, !isAll { throw ValidationError("Name a credential, or use --all.") }
    }

    /// - Parameter locks: Lock first.
    func perform(
        _ operation: AdminAPI.Operation<OperationReport>,
        locking locks: Bool = false
    ) async throws(CommandFailure) {
        let tokens = try TokenGateway(gateway)
        guard let name else { return try await performOnAll(operation, locking: locks, tokens) }
        var reports: [OperationReport] = []
        do throws(CommandFailure) {
            for step in TokenSweep(operation, on: name, locking: locks).steps {
                let mayBegin = locks && reports.isEmpty
                reports.append(try await tokens.ask(step.operation, of: name, mayBegin: mayBegin))
            }
        } catch {
            if !gateway.json.isOn { for report in reports { Console.writeError(report.line) } }
            throw error
        }
        if let report = reports.last { Console.write(try gateway.json.text(of: report, or: report.line)) }
    }

    // MARK: Every credential that has a token

    /// - Parameter locks: Lock every credential first, those without a token too.
    private func performOnAll(
        _ operation: AdminAPI.Operation<OperationReport>,
        locking locks: Bool,
        _ tokens: TokenGateway
    ) async throws(CommandFailure) {
        let work = { (gateway: TokenGateway.Backend) async throws(CommandFailure) in
            let sweep = TokenSweep(
                operation,
                onAllOf: try await gateway.ask(AdminAPI.operations.tokens),
                perSubject: try await gateway.ask(AdminAPI.operations.overview).perSubjectCredentials,
                locking: locks
            )
            return await sweep.outcomes { (operation, name) throws(CommandFailure) in
                try await gateway.ask(operation, of: name)
            }
        }
        let outcomes =
            operation.needsRunningGateway
            ? try await work(.running(tokens.client)) : try await tokens.reach(work)
        try gateway.json.write(outcomes, none: "No credential has a token.", or: Self.table(of: outcomes))
        try CommandFailure.require(noneOf: outcomes.filter { $0.outcome == .failed }.map(\.credential))
    }

    private static func table(of outcomes: [TokenSweep.Outcome]) -> String {
        outcomes.map { outcome in
            let message = LogText.clean(outcome.message.replacing("\n", with: "; "))
            return outcome.outcome == .ok
                ? "\(message)\n" : "\(LogText.clean(outcome.credential)): failed: \(message)\n"
        }.joined()
    }
}
