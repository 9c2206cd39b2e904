import Crypto
import GatewayAdmin
import GatewayAudit
import GatewayCore
import GatewayProxy
import Logging
import NIOCore
import NIOPosix

/// Makes the two servers and takes their addresses.
struct Binding {
    let plan: Plan
    let options: GatewayOptions
    let group: MultiThreadedEventLoopGroup
    let clock: any GatewayClock

    func makeProxy(sources: CredentialSources, observer: TrafficObserver) throws(CommandFailure) -> ProxyServer {
        let configuration = Self.configuration(of: plan, sources: sources, observer: observer)
        do {
            return try ProxyServer(
                group: group,
                configuration: configuration,
                clock: clock,
                observer: observer,
                logger: options.logger("proxy")
            )
        } catch {
            throw CommandFailure(.failed, Self.words(for: error))
        }
    }

    static func configuration(
        of plan: Plan,
        sources: CredentialSources,
        observer: TrafficObserver
    ) -> ProxyConfiguration {
        let routes = plan.routes.map { route in
            ProxyRoute(
                plan: route,
                source: route.credential.flatMap { sources.source($0) },
                policy: route.credential.map { plan.credentials[$0].policy } ?? RenewalPolicy(),
                number: observer.number(of: route.name)
            )
        }
        return ProxyConfiguration(
            routes: routes,
            access: plan.access,
            limits: plan.limits,
            sha256: { Array(SHA256.hash(data: $0)) }
        )
    }

    func bind(_ proxy: ProxyServer) async throws(CommandFailure) {
        do {
            _ = try await proxy.bind(plan.listeners)
        } catch {
            throw CommandFailure(.failed, Self.words(for: error))
        }
    }

    func makeAdmin(
        control: @escaping @Sendable () -> any GatewayControl,
        logins: LoginDesk,
        storage: Storage
    ) -> AdminServer {
        let reader = AuditReader(path: plan.audit.path)
        let metrics = options.metrics
        let admin = AdminOptions(
            version: GatewayVersion.current,
            control: control(),
            logins: logins,
            token: storage.adminToken,
            metrics: {
                TokenMetrics.record(await control().tokens(), in: metrics)
                return metrics.text()
            },
            recentEvents: { ((try? await reader.tail(last: 15)) ?? []).reversed().map(AdminEvent.init) }
        )
        return AdminServer(
            group: MultiThreadedEventLoopGroup.singleton,
            options: admin,
            logger: options.logger("admin")
        )
    }

    /// - Parameter proxy: Gives its addresses back when the admin listener's cannot be had.
    func bind(_ admin: AdminServer, closing proxy: ProxyServer) async throws(CommandFailure) -> Int {
        let (host, port) = (plan.admin.host, plan.admin.port)
        do {
            return try await admin.bind(host: host, port: port)
        } catch {
            await proxy.drain(within: .zero)
            let address = Origin(scheme: .http, host: host, port: port).authority
            let advice = "set listeners.admin.address to another one"
            if let error = error as? IOError, error.errnoCode == EADDRINUSE {
                let finding = "see who has it with `ss -ltnp 'sport = :\(port)'`"
                throw CommandFailure(
                    .failed,
                    "the admin address \(address) is in use; stop that program (\(finding)), or \(advice)"
                )
            }
            throw CommandFailure(
                .failed,
                "the admin listener cannot use \(address): \(Self.words(for: error)); \(advice)"
            )
        }
    }

    private static func words(for error: any Error) -> String {
        switch error {
        case let error as ListenerError: error.description
        case let error as IOError: SystemError.text(error.errnoCode)
        default: "\(error)"
        }
    }
}

extension AdminEvent {
    fileprivate init(_ row: AuditRow) {
        self.init(
            at: row.at,
            event: row.event,
            credential: row.credential,
            generation: row.generation.map(Int.init),
            isFailure: row.failed,
            note: [row.errorCode, row.route.map { "route \($0)" }].compactMap(\.self).joined(separator: ", ")
        )
    }
}
