import GatewayApp
import GatewayTokens

/// What operators have locked, as the state directory says. A command that runs beside the gateway sends none of it.
struct LockedCredentials: Sendable {
    private let names: Set<String>

    init(_ plan: Plan) {
        guard let locks = try? CredentialLocks(in: plan.stateDirectory) else {
            names = []
            return
        }
        let all = plan.credentials.filter { locks.contains($0.name) }
        // What shares a secret shares its lock.
        let secrets = Set(all.compactMap { $0.strategy.injectedSecret?.secret })
        let sharing = plan.credentials.filter {
            $0.strategy.injectedSecret.map { secrets.contains($0.secret) } ?? false
        }
        names = Set((all + sharing).map(\.name))
    }

    func contains(_ name: String) -> Bool { names.contains(name) }
}
