import GatewayAdmin
import GatewayAudit
import GatewayCore
import GatewayFiles
import GatewayLocalAuthority
import GatewayProxy
import Logging
import ServiceLifecycle
import Synchronization

/// Writes usage to the audit log and prunes it; stops last, so that the counts of all services are written.
struct AuditService: Service {
    let log: SQLiteAuditLog

    func run() async throws {
        await cancelWhenGracefulShutdown { await log.run() }
        await log.flushUsage()
    }
}

/// Sends the head of the audit log to its anchor. What the stop itself records is sent when the log is closed.
struct AnchorService: Service {
    let anchor: AuditAnchor

    func run() async throws {
        await cancelWhenGracefulShutdown { await anchor.run() }
    }
}

/// Recomputes the chain of the audit log once a day.
struct AuditChainService: Service {
    let check: AuditChainCheck

    func run() async throws {
        await cancelWhenGracefulShutdown { await check.run() }
    }
}

/// Looks once a day whether certificates of the local authority end soon.
struct AuthorityService: Service {
    static let interval: Duration = .seconds(86_400)

    let authority: LocalAuthority
    let live: LivePlan
    let clock: any GatewayClock
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await clock.sleep(for: Self.interval)) != nil { await renew() }
        }
    }

    private func renew() async {
        switch await authority.coverInTime(live.state.plan) {
        case .success(let hosts) where hosts.isEmpty: break
        case .success(let hosts):
            logger.warning(
                "New certificates of the local authority have to be trusted",
                metadata: ["hosts": "\(hosts.joined(separator: " "))", "command": "authgateway ca show"]
            )
        case .failure(let error):
            logger.error("The local authority cannot be renewed", metadata: ["reason": "\(error.description)"])
        }
    }
}

/// Checks the files once a second, so that questions about them are answered from memory.
struct StorageService: Service {
    static let interval: Duration = .seconds(1)

    let storage: Storage
    let clock: any GatewayClock

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await clock.sleep(for: Self.interval)) != nil { await storage.look() }
        }
    }
}

/// Reaps orphans, which would fill the process table of a container one by one.
struct OrphanService: Service {
    static let interval: Duration = .seconds(1)

    let clock: any GatewayClock

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await clock.sleep(for: Self.interval)) != nil { ChildProcesses.reapOrphans() }
        }
    }
}

/// Notes every few seconds which tokens of clients were used.
struct ClientTokenService: Service {
    static let interval: Duration = .seconds(5)

    let uses: ClientTokenUses
    let clock: any GatewayClock

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await clock.sleep(for: Self.interval)) != nil { uses.look(at: clock.now().wall) }
        }
    }
}

/// Runs the audit feed until all services that record events have stopped.
struct AuditFeedService: Service {
    let feed: AuditFeed

    func run() async throws {
        await withGracefulShutdownHandler {
            await feed.run()
        } onGracefulShutdown: {
            feed.finish()
        }
    }
}

/// Serves the admin listener; stops after the data plane, so that `/readyz` can tell of the drain.
struct AdminService: Service {
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
final class ReadinessState: Sendable {
    private let current = Mutex(Readiness.Phase.starting)
    private let unlistedReason = Mutex<String?>(nil)

    var phase: Readiness.Phase { current.withLock { $0 } }

    func enter(_ phase: Readiness.Phase) { current.withLock { $0 = phase } }

    /// Why the gateways that share the token store do not know this one; nil when they do.
    var unlisted: String? { unlistedReason.withLock { $0 } }

    func note(unlisted reason: String?) { unlistedReason.withLock { $0 = reason } }
}
