import GatewayEvents
import GatewayHTTP
import GatewayProxy
import Logging
import NIOCore
import NIOPosix

/// The admin listener. One that speaks TLS has a unix socket beside it, so that commands of this machine need no certificate.
struct AdminServers: Sendable {
    private let main: (server: AdminServer, address: ListenerPlan.Address)
    private let local: (server: AdminServer, address: ListenerPlan.Address)?
    private let isTLS: Bool

    /// - Parameters:
    ///   - connections: How many may be open at a time.
    ///   - tls: nil without TLS.
    init(_ plan: Plan, options: AdminOptions, connections: Int, tls: OperatorTLS?, logger: Logger) {
        func server(_ options: AdminOptions, _ security: AdminSecurity? = nil) -> AdminServer {
            let group = MultiThreadedEventLoopGroup.singleton
            return AdminServer(
                group: group,
                options: options,
                connections: connections,
                logger: logger,
                security: security
            ) { AcceptPause.add(to: $0, logger: logger) }
        }
        isTLS = tls != nil
        let security = tls.map { AdminSecurity(secure: $0.secure, peer: $0.peer) }
        main = (server(options, security), plan.admin.address)
        guard isTLS else {
            local = nil
            return
        }
        var beside = options
        beside.feedsBroadcaster = false
        beside.requiresToken = false
        local = (server(beside), AdminPlan.localSocket(in: plan.stateDirectory))
    }

    /// - Returns: Where it answers, with its real port.
    func bind() async throws(CommandFailure) -> BoundListener {
        if let local { _ = try await bind(local.server, at: local.address) }
        do throws(CommandFailure) {
            let port = try await bind(main.server, at: main.address)
            return BoundListener(address: main.address, port: port, isTLS: isTLS)
        } catch {
            await close(local)
            throw error
        }
    }

    /// - Returns: The port; nil for a socket.
    private func bind(_ server: AdminServer, at place: ListenerPlan.Address) async throws(CommandFailure) -> Int? {
        do {
            switch place {
            case .tcp(let host, let port): return try await server.bind(host: host, port: port)
            case .unix(let path, let users):
                try await UnixSocket.bind(path, isShared: !users.isEmpty, backlog: AdminServer.backlog) {
                    try await server.serve($0) { UnixSocket.admits($0, users: users) }
                }
                return nil
            }
        } catch {
            throw CommandFailure(.failed, ServerFactory.refusal(of: place, error))
        }
    }

    /// Until ``close()``.
    func run() async {
        await withDiscardingTaskGroup { tasks in
            tasks.addTask { await main.server.run() }
            if let local { tasks.addTask { await local.server.run() } }
        }
    }

    func close() async {
        await close(main)
        await close(local)
    }

    private func close(_ listener: (server: AdminServer, address: ListenerPlan.Address)?) async {
        guard let listener else { return }
        await listener.server.close()
        if case .unix(let path, _) = listener.address { UnixSocket.remove(path) }
    }
}

/// Records who asks for what on the admin listener, before it is done.
struct AdminActionLog: Sendable {
    static let maximumPath = 256
    /// How long what takes a right away waits for its record.
    private static let patience: Duration = .milliseconds(200)

    let audit: any AuditLog
    let onFailure: AuditPlan.OnFailure
    let clock: any GatewayClock
    let logger: Logger

    /// What may take a right away is done at once, and recorded as soon as the audit log works.
    ///
    /// - Returns: Why it must not be done: nothing else is done that is not recorded, unless the configuration says so.
    func record(_ action: AdminAction) async -> GatewayProblem? {
        let path = LogText.clean(String(action.path.prefix(Self.maximumPath)))
        let detail = ["user": action.user, "role": action.role.rawValue, "method": action.method, "path": path]
        var event = TokenEvent(at: clock.now().wall, name: .operatorRequest, trigger: .operator)
        event.detail = detail
        guard !action.withdraws else {
            await recordSoon(event, of: action.user)
            return nil
        }
        do throws(AuditError) {
            try await audit.record(event)
            return nil
        } catch {
            logger.error("Audit event not written", metadata: ["event": "operator_request", "user": "\(action.user)"])
            guard onFailure == .block else { return nil }
            let text = "The audit log cannot be written: \(error.reason). Nothing was done."
            return GatewayProblem(.auditUnavailable, text, retryAfter: .seconds(5))
        }
    }

    private func recordSoon(_ event: TokenEvent, of user: String) async {
        let end = await Deadline.value(within: Self.patience) { [audit] in await audit.recordSoon(event)?.reason }
        guard let reason = end ?? "it did not accept the event in time" else { return }
        logger.warning(
            "Audit event not written yet",
            metadata: ["event": "operator_request", "user": "\(user)", "reason": "\(LogText.clean(reason))"]
        )
    }
}
