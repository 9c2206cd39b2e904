import GatewayEvents
import GatewayHTTP
import GatewayLocalAuthority
import Synchronization

@testable import GatewayApp
@testable import GatewayAudit
@testable import GatewayTokens

/// Answers the operations with what a test put in, and remembers what it was told to do.
final class ScriptedControl: OperationRunner {
    private let statuses: [TokenStatus]
    private let isReady: Bool
    private let ends: [Expiration]
    private let held: [HeldRequestStatus]
    private let actions = Mutex<[String]>([])

    init(
        statuses: [TokenStatus] = [],
        isReady: Bool = true,
        ends: [Expiration] = [],
        held: [HeldRequestStatus] = []
    ) {
        self.ends = ends
        self.held = held
        self.statuses = statuses
        self.isReady = isReady
    }

    var performed: [String] { actions.withLock { $0 } }

    func run<Input: Sendable, Answer: Sendable>(
        _ operation: String,
        on name: String,
        with input: Input,
        _ function: @Sendable (OperatorControl, String, Input) async -> Result<Answer, GatewayProblem>
    ) async -> Result<Answer, GatewayProblem> {
        answer(operation, name, input).flatMap { answer in
            guard let answer = answer as? Answer else {
                return .failure(GatewayProblem(.internalError, "The script has no such answer to \(operation)."))
            }
            return .success(answer)
        }
    }

    private func answer(
        _ operation: String,
        _ name: String,
        _ input: any Sendable
    ) -> Result<any Sendable, GatewayProblem> {
        switch operation {
        case "GET /readyz": return .success(Readiness(isReady: isReady, reasons: isReady ? [] : ["it is draining"]))
        case "GET /api/overview": return .success(overview)
        case "GET /api/routes": return .success(routes)
        case "GET /api/traffic": return .success([TrafficStatus(route: "box", requestsPerSecond: 3.1)])
        case "GET /api/traffic/hour": return .success(TrafficHour(at: UnixTime(seconds: 1_800_000_000)))
        case "GET /api/expirations": return .success(ends)
        case "GET /api/fleet": return .success(fleet)
        case "GET /api/tokens": return .success(statuses)
        case "GET /api/tokens/:name": return token(name).map { $0 }
        case "POST /api/tokens/:name/import":
            return perform((input as? TokenToImport)?.token.refreshToken == nil ? "import" : "import pair", name)
        case "POST /api/tokens/:name/reveal": return hand("shown-token", "reveal \(name)", name)
        case "POST /api/tokens/:name/downscope":
            guard let options = input as? DownscopeOptions else { break }
            let what = options.scopes + [options.resource ?? "-", options.sharedLink == nil ? "-" : "link"]
            return hand("weak-token", "downscope \(name) \(what.joined(separator: " "))", name)
        case "POST /api/audit/who/:name":
            guard let question = input as? AuditWhoQuestion else { break }
            return .success(
                AuditWho(
                    credential: name,
                    by: question.by,
                    since: question.since,
                    until: question.until,
                    recordedSince: nil,
                    groups: [],
                    total: nil
                )
            )
        case "POST /api/audit/flush": return .success(AuditFlush(isComplete: true))
        case "GET /api/approvals": return .success(held)
        case "POST /api/approvals/:id/approve", "POST /api/approvals/:id/deny":
            guard let order = input as? ApprovalOrder, let request = held.first(where: { $0.id == name }) else { break }
            note("\(operation.split(separator: "/").last ?? "") \(order.user ?? "-")")
            return .success(request)
        case "POST /api/reload":
            note("reload")
            return .success(ReloadReport(cause: .operator, outcome: isReady ? .loaded : .refused))
        case "POST /api/key/rotate":
            note("rotate key")
            return .success(KeyRotationReport(tokens: 2, file: "/state/token.key.encryption"))
        case "POST /api/ca/rotate":
            note("rotate authority")
            return .success(AuthorityRotationReport(scopes: ["api.box.com"], file: "/state/ca/ca.pem"))
        case "POST /api/state/backup":
            guard let backup = input as? BackupToNote else { break }
            note(backup.includesKeys ? "back up with keys" : "back up")
            return .success(BackupNote(instance: "1a2b3c4d"))
        case let operation where operation.hasPrefix("POST /api/tokens/:name/"):
            return perform(operation.split(separator: "/").last.map(String.init) ?? "", name)
        default: break
        }
        return .failure(GatewayProblem(.internalError, "The script has no answer to \(operation)."))
    }

    private func note(_ action: String) { actions.withLock { $0.append(action) } }

    private func token(_ credential: String) -> Result<TokenStatus, GatewayProblem> {
        guard let status = statuses.first(where: { $0.credential == credential }) else {
            return .failure(GatewayProblem(.noRoute, "No such credential."))
        }
        return .success(status)
    }

    private func perform(_ verb: String, _ credential: String) -> Result<any Sendable, GatewayProblem> {
        note("\(verb) \(credential)")
        return token(credential).map { OperationReport(message: "done", token: $0) }
    }

    private func hand(
        _ access: String,
        _ action: String,
        _ credential: String
    ) -> Result<any Sendable, GatewayProblem> {
        note(action)
        return token(credential).map { status in
            let access = Secret(access)
            return RevealedTokenBody(
                RevealedToken(credential: status.credential, generation: 3, access: access, expiresAt: nil)
            )
        }
    }

    private var routes: [RouteStatus] {
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

    private var overview: GatewayOverview {
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

    private var fleet: FleetReport {
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
        return FleetReport(question)
    }
}
