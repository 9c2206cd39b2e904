import GatewayEvents
import GatewayHTTP
import GatewayLocalAuthority
import Synchronization

@testable import GatewayApp
@testable import GatewayTokens

/// Answers with what a test put in, and remembers what it was told to do.
final class ScriptedControl: GatewayControl {
    private let statuses: [TokenStatus]
    private let isReady: Bool
    private let ends: [Expiration]
    private let actions = Mutex<[String]>([])

    init(statuses: [TokenStatus] = [], isReady: Bool = true, ends: [Expiration] = []) {
        self.ends = ends
        self.statuses = statuses
        self.isReady = isReady
    }

    var performed: [String] { actions.withLock { $0 } }

    func tokens() async -> [TokenStatus] { statuses }

    func expirations() async -> [Expiration] { ends }

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

    func traffic() async -> [TrafficStatus] { [TrafficStatus(route: "box", requestsPerSecond: 3.1)] }

    func overview() async -> GatewayOverview {
        GatewayOverview(
            version: "test",
            startedAt: "2026-11-25T08:00:00.000Z",
            configurationDigest: "8a04c3",
            configurationLoadedAt: "2026-11-25T11:59:00.000Z",
            listeners: ["http://127.0.0.1:8080"],
            clients: ["ci"],
            proxy: ProxyOffer(
                endpoints: [
                    ProxyEndpoint(
                        host: "127.0.0.1",
                        port: 8082,
                        isTLS: false,
                        intercepts: true,
                        requiresClientToken: false
                    )
                ],
                origins: ["https://api.box.com"]
            )
        )
    }

    func readiness() async -> Readiness { Readiness(isReady: isReady, reasons: isReady ? [] : ["it is draining"]) }

    func fleet() async -> Result<FleetReport, GatewayProblem> {
        var question = FleetQuestion(FleetMark(1))
        let heartbeat = FleetHeartbeat(
            id: "00112233445566aa",
            host: "gateway-1",
            version: "test",
            startedAt: "2026-11-25T08:00:00.000Z",
            configurationDigest: "8a04c3",
            acknowledged: FleetMark(1)
        )
        _ = question.note([FleetMember(heartbeat, seen: .milliseconds(300))], after: .milliseconds(12))
        return .success(FleetReport(question))
    }

    func reload() async -> ReloadReport {
        actions.withLock { $0.append("reload") }
        return ReloadReport(cause: .operator, outcome: isReady ? .loaded : .refused)
    }

    func rotateKey() async -> Result<KeyRotationReport, GatewayProblem> {
        actions.withLock { $0.append("rotate key") }
        return .success(KeyRotationReport(tokens: 2, file: "/state/token.key.encryption"))
    }

    func rotateAuthority() async -> Result<AuthorityRotationReport, GatewayProblem> {
        actions.withLock { $0.append("rotate authority") }
        return .success(AuthorityRotationReport(scopes: ["api.box.com"], file: "/state/ca/ca.pem"))
    }

    func noteBackup(includesKeys: Bool) async -> Result<BackupNote, GatewayProblem> {
        actions.withLock { $0.append(includesKeys ? "back up with keys" : "back up") }
        return .success(BackupNote(instance: "1a2b3c4d"))
    }

    func servedPlan() async -> ServedPlan? { nil }

    func token(_ credential: String) async -> Result<TokenStatus, GatewayProblem> {
        guard let status = statuses.first(where: { $0.credential == credential }) else {
            return .failure(GatewayProblem(.noRoute, "No such credential."))
        }
        return .success(status)
    }

    func perform(
        _ operation: TokenOperation,
        on credential: String
    ) async -> Result<OperationReport, GatewayProblem> {
        let verb =
            switch operation {
            case .refresh: "refresh"
            case .revoke: "revoke"
            case .clear: "clear"
            case .import(let token): token.refreshToken == nil ? "import" : "import pair"
            case .lock: "lock"
            case .unlock: "unlock"
            }
        actions.withLock { $0.append("\(verb) \(credential)") }
        return await token(credential).map { OperationReport(message: "done", token: $0) }
    }

    func reveal(_ credential: String) async -> Result<RevealedToken, GatewayProblem> {
        actions.withLock { $0.append("reveal \(credential)") }
        return await token(credential).map {
            RevealedToken(credential: $0.credential, generation: 3, access: Secret("shown-token"), expiresAt: nil)
        }
    }

    func downscope(_ credential: String, _ options: DownscopeOptions) async -> Result<RevealedToken, GatewayProblem> {
        let what = (options.scopes + [options.resource ?? "-", options.sharedLink == nil ? "-" : "link"]).joined(
            separator: " "
        )
        actions.withLock { $0.append("downscope \(credential) \(what)") }
        return await token(credential).map {
            RevealedToken(credential: $0.credential, generation: 3, access: Secret("weak-token"), expiresAt: nil)
        }
    }
}
