import Crypto
import GatewayAdmin
import GatewayAudit
import GatewayCore
import GatewayFiles
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
        let configuration = Self.configuration(of: plan, sources: sources) { observer.number(of: $0) }
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

    /// - Parameter number: What the observer knows a route by.
    static func configuration(
        of plan: Plan,
        sources: CredentialSources,
        number: (String) -> Int
    ) -> ProxyConfiguration {
        let routes = plan.routes.map { route in
            ProxyRoute(
                plan: route,
                source: route.credential.flatMap { sources.source($0) },
                selection: route.credential.flatMap { sources.perSubjectKeepers[$0] },
                policy: route.credential.map { plan.credentials[$0].policy } ?? RenewalPolicy(),
                number: number(route.name)
            )
        }
        return ProxyConfiguration(
            routes: routes,
            access: plan.access,
            limits: plan.limits,
            sendsProxyStatus: plan.sendsProxyStatus,
            requestIDHeader: plan.requestIDHeader,
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
        vending: VendingDesk,
        explainer: Explainer,
        storage: Storage,
        observer: TrafficObserver
    ) -> AdminServer {
        let reader = AuditReader(path: plan.audit.path)
        let metrics = options.metrics
        let admin = AdminOptions(
            version: GatewayVersion.current,
            control: control(),
            logins: logins,
            vending: vending,
            explanations: explainer,
            token: storage.adminToken,
            metrics: {
                let control = control()
                observer.collect()
                TokenMetrics.record(await control.tokens(), await control.expirations(), in: metrics)
                return metrics.text()
            },
            recentEvents: { ((try? await reader.tail(last: 15)) ?? []).reversed().map(AdminEvent.init) }
        )
        let logger = options.logger("admin")
        return AdminServer(group: MultiThreadedEventLoopGroup.singleton, options: admin, logger: logger) {
            AcceptPause.add(to: $0, logger: logger)
        }
    }

    /// - Parameter proxy: Gives its addresses back when the admin listener's cannot be had.
    func bind(_ admin: AdminServer, closing proxy: ProxyServer) async throws(CommandFailure) -> BoundListener {
        let place = plan.admin.address
        do {
            switch place {
            case .tcp(let host, let port):
                return BoundListener(address: place, port: try await admin.bind(host: host, port: port), isTLS: false)
            case .unix(let path, let users):
                try await UnixSocket.bind(path, isShared: !users.isEmpty, backlog: AdminServer.backlog) {
                    try await admin.serve($0) { UnixSocket.admits($0, users: users) }
                }
                return BoundListener(address: place, port: nil, isTLS: false)
            }
        } catch {
            await proxy.drain(within: .zero)
            throw CommandFailure(.failed, Self.refusal(of: place, error))
        }
    }

    private static func refusal(of place: ListenerPlan.Address, _ error: any Error) -> String {
        switch place {
        case .unix(let path, _):
            let reason = error is ListenerError ? words(for: error) : "unix:\(path): \(words(for: error))"
            return "the admin listener cannot use \(reason); set listeners.admin.unix to another path"
        case .tcp(let host, let port):
            let address = Origin(scheme: .http, host: host, port: port).authority
            let advice = "set listeners.admin.address to another one"
            guard let error = error as? IOError, error.errnoCode == EADDRINUSE else {
                return "the admin listener cannot use \(address): \(words(for: error)); \(advice)"
            }
            let finding = "see who has it with `ss -ltnp 'sport = :\(port)'`"
            return "the admin address \(address) is in use; stop that program (\(finding)), or \(advice)"
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
