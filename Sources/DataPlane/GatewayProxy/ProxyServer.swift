package import GatewayCore
package import Logging
package import NIOPosix

/// One route as the data plane serves it: the plan's, with the source of its credential.
package struct ProxyRoute: Sendable {
    package var plan: RoutePlan
    /// nil forwards without authentication.
    package var source: (any CredentialSource)?
    package var policy: RenewalPolicy

    package init(plan: RoutePlan, source: (any CredentialSource)?, policy: RenewalPolicy = RenewalPolicy()) {
        self.plan = plan
        self.source = source
        self.policy = policy
    }
}

/// What the data plane needs to know: immutable while it runs.
package struct ProxyConfiguration: Sendable {
    package var routes: [ProxyRoute]
    package var access: AccessPlan
    package var limits: Limits
    /// SHA-256, for clients whose token is configured as a digest.
    package var sha256: @Sendable ([UInt8]) -> [UInt8]

    package init(
        routes: [ProxyRoute],
        access: AccessPlan,
        limits: Limits,
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        self.routes = routes
        self.access = access
        self.limits = limits
        self.sha256 = sha256
    }
}

/// A listener that is bound; `port` is the real one when the plan asked for port 0.
package struct BoundListener: Hashable, Sendable {
    package let address: ListenerPlan.Address
    package let port: Int?
    package let isTLS: Bool
}

/// The data plane: accepts, forwards, drains.
package final class ProxyServer: Sendable {
    package init(
        group: MultiThreadedEventLoopGroup,
        configuration: ProxyConfiguration,
        clock: any GatewayClock,
        observer: any ExchangeObserver,
        logger: Logger
    ) throws {
    }

    /// Binds every listener, or none: the first failure closes the ones already bound. Nothing is accepted yet.
    ///
    /// - Throws: ``ListenerError`` that names the address and what to do.
    package func bind(_ listeners: [ListenerPlan]) async throws -> [BoundListener] { [] }

    /// Begins to accept on all bound listeners.
    package func start() {}

    /// Stops accepting, lets exchanges under way finish, closes what is left when `limit` has passed.
    package func drain(within limit: Duration) async {}
}

package struct ListenerError: Error, Sendable, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}
