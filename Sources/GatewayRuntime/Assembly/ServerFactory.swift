import Crypto
import GatewayAdmin
import GatewayCore
import GatewayFiles
import GatewayLocalAuthority
import GatewayProxy
import Logging
import NIOCore
import NIOPosix

/// Makes the two servers and takes their addresses.
struct ServerFactory {
    let plan: Plan
    let options: GatewayOptions
    let group: MultiThreadedEventLoopGroup
    let clock: any GatewayClock

    func makeProxy(
        sources: CredentialSources,
        observer: TrafficObserver,
        authenticate: @escaping @Sendable ([UInt8]) -> [UInt8],
        tokenUses: ClientTokenUses,
        jwts: ClientJWTParts,
        authority: LocalAuthority
    ) throws(CommandFailure) -> ProxyServer {
        do throws(LeafError) {
            try authority.cover(plan.interceptedHosts, as: plan.localAuthority)
        } catch {
            throw CommandFailure(.failed, error.description)
        }
        let configuration = Self.configuration(
            of: plan,
            sources: sources,
            observer: observer,
            authenticate: authenticate
        )
        do {
            return try ProxyServer(
                group: group,
                configuration: configuration,
                clock: clock,
                observer: observer,
                logger: options.logger("proxy"),
                descriptorLimit: options.descriptorLimit,
                passed: options.passedSockets,
                tokenUses: tokenUses,
                jwts: jwts,
                authority: authority
            )
        } catch {
            throw CommandFailure(.failed, Self.words(for: error))
        }
    }

    /// With the numbers of the observer, and with its telemetry.
    static func configuration(
        of plan: Plan,
        sources: CredentialSources,
        observer: TrafficObserver,
        authenticate: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) -> ProxyConfiguration {
        configuration(
            of: plan,
            sources: sources,
            tracing: observer.telemetry?.sampling,
            unroutedNumber: observer.number(of: TrafficObserver.unrouted),
            authenticate: authenticate
        ) { route in
            let number = observer.number(of: route.name)
            observer.telemetry?.name(number, route)
            return number
        }
    }

    /// - Parameters:
    ///   - tracing: As it was at the start: there is what exports the spans.
    ///   - unroutedNumber: The observer's number for requests without a route.
    ///   - authenticate: What engines are handed; nothing that only explains hands them anything.
    ///   - number: The observer's number for a route.
    static func configuration(
        of plan: Plan,
        sources: CredentialSources,
        tracing: TraceSampling? = nil,
        unroutedNumber: Int? = nil,
        authenticate: @escaping @Sendable ([UInt8]) -> [UInt8] = { _ in [] },
        number: (RoutePlan) -> Int
    ) -> ProxyConfiguration {
        let routes = plan.routes.map { route in
            let credential = route.credential.map { plan.credentials[$0] }
            return ProxyRoute(
                plan: route,
                source: route.credential.flatMap { sources.source($0, in: plan) },
                selection: route.credential.flatMap { sources.selection($0, in: plan) },
                ownedFields: credential.map { type(of: $0.strategy).ownedFields } ?? [],
                policy: credential?.policy ?? RenewalPolicy(),
                number: number(route)
            )
        }
        return ProxyConfiguration(
            routes: routes,
            access: plan.access,
            engines: plan.authz.compactMap(\.engine),
            connect: plan.connect,
            unroutedNumber: unroutedNumber,
            limits: plan.limits,
            sendsProxyStatus: plan.sendsProxyStatus,
            requestIDHeader: plan.requestIDHeader,
            tracing: tracing,
            sha256: { Array(SHA256.hash(data: $0)) },
            authenticate: authenticate
        )
    }

    func bind(_ proxy: ProxyServer) async throws(CommandFailure) {
        do {
            _ = try await proxy.bind(plan.listeners + plan.authz)
        } catch {
            throw CommandFailure(.failed, Self.words(for: error))
        }
    }

    static func refusal(of place: ListenerPlan.Address, _ error: any Error) -> String {
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

    static func words(for error: any Error) -> String {
        switch error {
        case let error as ListenerError: error.description
        case let error as IOError: SystemError.text(error.errnoCode)
        default: "\(error)"
        }
    }
}
