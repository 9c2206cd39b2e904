import Crypto
import GatewayAdmin
import GatewayAudit
import GatewayCore
import GatewayLocalAuthority
import GatewayProxy

extension ServerFactory {
    /// - Returns: nil where the admin listener has no TLS.
    /// - Throws: ``CommandFailure`` when certificate or key cannot be used.
    func makeOperatorTLS() throws(CommandFailure) -> OperatorTLS? {
        guard let settings = plan.admin.tls else { return nil }
        do throws(ListenerError) {
            return OperatorTLS(try OperatorTLS.prepare(settings), clock: clock)
        } catch {
            throw CommandFailure(.failed, error.description)
        }
    }

    func makeAdmin(
        control: @escaping @Sendable () -> any GatewayControl,
        logins: LoginDesk,
        vending: VendingDesk,
        explainer: Explainer,
        storage: Storage,
        observer: TrafficObserver,
        broadcaster: EventBroadcaster,
        refreshMetrics: @escaping @Sendable () async -> Void,
        users: @escaping @Sendable () -> [AdminUser],
        tls: OperatorTLS?
    ) -> AdminServers {
        let metrics = options.metrics
        var admin = AdminOptions(
            control: control(),
            logins: logins,
            vending: vending,
            explanations: explainer,
            token: storage.adminToken,
            metrics: {
                await refreshMetrics()
                return metrics.text()
            },
            now: { [clock] in clock.now().wall }
        )
        admin.explain = { question in
            await explainer.explain(ExplanationQuestion(input: question)).map { $0.explanation?.text() ?? "" }
        }
        admin.localAuthorityPEM = { [folder = plan.stateDirectory] in
            do throws(LeafError) {
                let roots = try AuthorityRoots.read(in: folder)
                return .success(roots.isEmpty ? nil : roots.map(\.pem).joined())
            } catch {
                return .failure(
                    GatewayProblem(.internalError, "The gateway cannot show its local authority: \(error).")
                )
            }
        }
        admin.requiresToken = plan.admin.requiresToken
        admin.broadcaster = broadcaster
        let events = StoredEvents(reader: AuditReader(path: plan.audit.path))
        admin.past = { [clock] in await events.beforeStart(at: clock.now().wall) }
        admin.requests = { cursor in
            let batch = observer.recentRequests(after: cursor.flatMap(RecentRequests.Cursor.init))
            return (batch.requests.map(AuditEntry.init), batch.cursor.description)
        }
        admin.olderEvents = { await events.page($0, since: $1, limit: $2) }
        admin.users = users
        admin.sha256 = { Array(SHA256.hash(data: $0)) }
        admin.record =
            AdminActionLog(
                audit: storage.recorder,
                onFailure: plan.audit.onFailure,
                clock: clock,
                logger: options.logger("admin")
            ).record
        return AdminServers(
            plan,
            options: admin,
            connections: DescriptorShares.adminConnections(of: options.descriptorLimit),
            tls: tls,
            logger: options.logger("admin")
        )
    }

    /// - Parameter proxy: Gives its addresses back when the admin listener's cannot be had.
    func bind(_ admin: AdminServers, closing proxy: ProxyServer) async throws(CommandFailure) -> BoundListener {
        do throws(CommandFailure) {
            return try await admin.bind()
        } catch {
            await proxy.drain(within: .zero)
            throw error
        }
    }
}
