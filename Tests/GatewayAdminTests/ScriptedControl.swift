import GatewayCore
import Synchronization

/// Answers with what a test put in, and remembers what it was told to do.
final class ScriptedControl: GatewayControl {
    private let statuses: [TokenStatus]
    private let isReady: Bool
    private let actions = Mutex<[String]>([])

    init(statuses: [TokenStatus] = [], isReady: Bool = true) {
        self.statuses = statuses
        self.isReady = isReady
    }

    var performed: [String] { actions.withLock { $0 } }

    func tokens() async -> [TokenStatus] { statuses }

    func routes() async -> [RouteStatus] {
        [
            RouteStatus(
                name: "box",
                upstream: "https://api.box.com",
                path: "/box",
                hosts: ["box.localhost"],
                credential: "box-service",
                strategy: "box_ccg"
            )
        ]
    }

    func readiness() async -> Readiness { Readiness(isReady: isReady, reasons: isReady ? [] : ["it is draining"]) }

    func refresh(_ credential: String) async -> Result<TokenStatus, GatewayProblem> { act("refresh", credential) }
    func clear(_ credential: String) async -> Result<TokenStatus, GatewayProblem> { act("clear", credential) }

    func reload() async -> ReloadReport {
        actions.withLock { $0.append("reload") }
        return ReloadReport(cause: .operator, outcome: isReady ? .loaded : .refused)
    }

    func servedPlan() async -> ServedPlan? { nil }

    private func act(_ verb: String, _ credential: String) -> Result<TokenStatus, GatewayProblem> {
        actions.withLock { $0.append("\(verb) \(credential)") }
        guard let status = statuses.first(where: { $0.credential == credential }) else {
            return .failure(GatewayProblem(.noRoute, "No such credential."))
        }
        return .success(status)
    }
}
