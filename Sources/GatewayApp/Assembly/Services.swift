import GatewayAudit
import GatewayFiles
import GatewayHTTP
import GatewayLocalAuthority
import GatewayProxy
import Logging
import ServiceLifecycle
import Synchronization

/// Work in the background that a stop cancels, under the name that the lifecycle's log has for it.
struct BackgroundService: Service {
    let name: String
    private let work: @Sendable () async -> Void
    private let atEnd: @Sendable () async -> Void

    /// - Parameter atEnd: Done once the work has ended.
    init(
        _ name: String,
        work: @escaping @Sendable () async -> Void,
        atEnd: @escaping @Sendable () async -> Void = {}
    ) {
        self.name = name
        self.work = work
        self.atEnd = atEnd
    }

    /// Something that is done again and again, the first time after a pause.
    init(
        _ name: String,
        every pause: Duration,
        _ clock: any GatewayClock,
        work: @escaping @Sendable () async -> Void
    ) {
        self.init(name) { while (try? await clock.sleep(for: pause)) != nil { await work() } }
    }

    func run() async throws {
        await cancelWhenGracefulShutdown(work)
        await atEnd()
    }
}

/// The services that run in the background of a gateway.
extension BackgroundService {
    /// Writes usage to the audit log and prunes it; stops last, so that the counts of all services are written.
    static func audit(_ log: SQLiteAuditLog) -> BackgroundService {
        BackgroundService("AuditService") {
            await log.run()
        } atEnd: {
            await log.flushUsage()
        }
    }

    /// Sends the head of the audit log to its anchor. What the stop itself records is sent when the log is closed.
    static func anchor(_ anchor: AuditAnchor) -> BackgroundService {
        BackgroundService("AnchorService") { await anchor.run() }
    }

    /// Recomputes the chain of the audit log once a day.
    static func chainCheck(_ check: AuditChainCheck) -> BackgroundService {
        BackgroundService("AuditChainService") { await check.run() }
    }

    /// Checks the files once a second, so that questions about them are answered from memory.
    static func storage(_ storage: Storage, _ clock: any GatewayClock) -> BackgroundService {
        BackgroundService("StorageService", every: .seconds(1), clock) { await storage.look() }
    }

    /// Reaps orphans, which would fill the process table of a container one by one.
    static func orphans(_ clock: any GatewayClock) -> BackgroundService {
        BackgroundService("OrphanService", every: .seconds(1), clock) { ChildProcesses.reapOrphans() }
    }

    /// Records every few seconds which client tokens were used, and removes those of programs that have exited.
    static func clientTokens(_ uses: ClientTokenUses, _ clock: any GatewayClock) -> BackgroundService {
        BackgroundService("ClientTokenService", every: .seconds(5), clock) {
            uses.look(at: clock.now().wall)
            uses.runs.removeExited()
        }
    }

    /// Looks once a day whether certificates of the local CA end soon.
    static func authority(
        _ authority: LocalAuthority,
        _ live: LivePlan,
        _ clock: any GatewayClock,
        _ logger: Logger
    ) -> BackgroundService {
        BackgroundService("AuthorityService", every: .seconds(86_400), clock) {
            switch await authority.coverInTime(live.state.plan) {
            case .success(let hosts) where hosts.isEmpty: break
            case .success(let hosts):
                logger.warning(
                    "New certificates of the local CA have to be trusted",
                    metadata: ["hosts": "\(hosts.joined(separator: " "))", "command": "authgateway ca show"]
                )
            case .failure(let error):
                logger.error("The local CA cannot be renewed", metadata: ["reason": "\(error.description)"])
            }
        }
    }
}

/// Runs the queue of audit events until all services that record events have stopped.
struct AuditFeedService: Service {
    let feed: AuditEventQueue

    func run() async throws {
        await withGracefulShutdownHandler {
            await feed.run()
        } onGracefulShutdown: {
            feed.finish()
        }
    }
}

/// Serves the admin listener; stops after the data plane, so that `/readyz` can tell of the drain.
struct AdminListeners: Service {
    let servers: AdminServers
    let logins: LoginDesk

    func run() async throws {
        await withTaskGroup { tasks in
            tasks.addTask { await servers.run() }
            // Ends on graceful shutdown and on cancellation alike.
            try? await gracefulShutdown()
            await logins.close()
            await servers.close()
        }
    }
}

/// Serves the data plane; on shutdown it stops accepting and lets exchanges under way finish.
struct ProxyService: Service {
    let server: ProxyServer
    let readiness: ReadinessState
    let drainLimit: Duration
    let notifier: ServiceNotifier?
    let logger: Logger

    func run() async throws {
        server.start()
        readiness.enter(.serving)
        notifier?.send(.ready)
        // Ends on graceful shutdown and on cancellation alike.
        try? await gracefulShutdown()
        readiness.enter(.draining)
        notifier?.send(.stopping)
        logger.notice("Draining", metadata: ["limit": "\(ConfigUnits.text(drainLimit))"])
        await server.drain(within: drainLimit)
    }
}

/// What services know of the gateway, and `/readyz` tells: where it is in its life, and whether other gateways know it.
package final class ReadinessState: Sendable {
    private let current = Mutex(Readiness.Phase.starting)
    private let unlistedReason = Mutex<String?>(nil)

    package init() {}

    var phase: Readiness.Phase { current.withLock { $0 } }

    func enter(_ phase: Readiness.Phase) { current.withLock { $0 = phase } }

    /// Why the gateways that share the token store do not know this one; nil when they do.
    var unlisted: String? { unlistedReason.withLock { $0 } }

    func note(unlisted reason: String?) { unlistedReason.withLock { $0 = reason } }
}
