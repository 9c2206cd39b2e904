import GatewayCore
import GatewayProxy
import GatewayTokenKeeper

/// Carries out what operators do to tokens: lock, unlock, refresh, revoke, clear and import.
struct TokenOperations {
    /// What is served by now, for what takes longer than a reload.
    let live: LivePlan
    /// What was served when the operator asked.
    let keepers: KeeperLookup
    let locks: CredentialLocks
    /// No gateway runs: the keepers do not, and the store is all there is.
    let isOffline: Bool
    /// Ends what is under way with credentials of these sources; returns the numbers of the workers that did not answer in time.
    let withdraw: @Sendable ([any CredentialSource]) async -> [Int]

    /// Answers once nothing is under way any more with what the operation took away.
    func perform(_ operation: TokenOperation, on name: String) async -> Result<OperationReport, GatewayProblem> {
        let before = keepers.sources.allKeepers.map { (ObjectIdentifier($0), $0.timesWithdrawn) }
        let result = await carryOut(operation, on: name)
        let silent = await withdraw(withdrawn(since: Dictionary(before) { first, _ in first }))
        guard let warning = ProxyServer.warning(of: silent, that: "it has ended all use of the token") else {
            return result
        }
        return result.map { report in
            var report = report
            report.message += " \(warning)"
            return report
        }
    }

    /// Those whose token was taken away meanwhile, the ones that serve by now first. One that was made since has lost nothing of its
    /// own, but may stand for one that had to make room while its token was in use.
    private func withdrawn(since before: [ObjectIdentifier: Int]) -> [TokenKeeper] {
        (live.state.sources.allKeepers + keepers.sources.allKeepers).filter { keeper in
            keeper.timesWithdrawn != before[ObjectIdentifier(keeper)] ?? 0
        }
    }

    private func carryOut(_ operation: TokenOperation, on name: String) async -> Result<OperationReport, GatewayProblem>
    {
        do throws(GatewayProblem) {
            let keeper = try keepers.keeper(of: name).get()
            switch operation {
            case .lock: return await lock(name, keeper)
            case .unlock: return await unlock(name, keeper)
            case .refresh, .revoke, .clear, .import: return await carryOut(operation, keeper)
            }
        } catch {
            return .failure(error)
        }
    }

    private func carryOut(
        _ operation: TokenOperation,
        _ keeper: TokenKeeper
    ) async -> Result<OperationReport, GatewayProblem> {
        isOffline ? await keeper.performAlone(operation) : await keeper.perform(operation)
    }

    private func lock(_ name: String, _ keeper: TokenKeeper) async -> Result<OperationReport, GatewayProblem> {
        do throws(StateError) {
            try locks.lock(name)
        } catch {
            _ = await carryOut(.lock, keeper)
            let detail =
                "\(error.description). \(name) is locked, but only until the gateway stops or a reload changes it."
            return .failure(GatewayProblem(.internalError, detail))
        }
        return await carryOut(.lock, keeper, of: name) { locks.contains(name) }
    }

    private func unlock(_ name: String, _ keeper: TokenKeeper) async -> Result<OperationReport, GatewayProblem> {
        do throws(StateError) {
            try locks.unlock(keepers.names(of: keeper))
        } catch {
            return .failure(GatewayProblem(.internalError, "\(error.description)."))
        }
        return await carryOut(.unlock, keeper, of: name) { !locks.contains(name) }
    }

    /// Carries out what is stored already, by the keeper that serves by now: whichever is made later begins as is stored.
    /// When that one makes room for another before the command has its turn, the other one does it and says so.
    ///
    /// - Parameter stands: Whether no operator has commanded the opposite meanwhile.
    private func carryOut(
        _ operation: TokenOperation,
        _ keeper: TokenKeeper,
        of name: String,
        while stands: () -> Bool
    ) async -> Result<OperationReport, GatewayProblem> {
        var keeper = successor(of: keeper, name)
        for _ in 1..<Self.maximumSuccessors {
            let result = await carryOut(operation, keeper)
            guard case .failure(let problem) = result, problem.kind == .draining, stands() else { return result }
            let next = successor(of: keeper, name)
            guard next !== keeper else { return result }
            keeper = next
        }
        return await carryOut(operation, keeper)
    }

    /// Keepers that one command is tried with; each of them was retired while the command waited.
    private static let maximumSuccessors = 4

    private func successor(of keeper: TokenKeeper, _ name: String) -> TokenKeeper {
        let state = live.state
        return (try? KeeperLookup(plan: state.plan, sources: state.sources).keeper(of: name).get()) ?? keeper
    }
}
