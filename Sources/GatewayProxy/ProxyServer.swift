package import GatewayHTTP
package import GatewayTokens
package import Logging
import NIOCore
package import NIOPosix
import NIOSSL
import Synchronization

/// A configuration that is ready to take the place of the present one: its listeners are bound, nothing is served yet.
package struct PreparedReload: Sendable {
    fileprivate let shared: ProxyShared
    /// The listeners that stay open, with what they accept with from now on.
    fileprivate let kept: [(listener: Listener, settings: Listener.Settings)]
    fileprivate let opened: [Listener]
}

/// The data plane: accepts, forwards, drains.
package final class ProxyServer: Sendable {
    private let group: MultiThreadedEventLoopGroup
    private let passed: PassedSockets
    private let state: ProxyState
    let workers: WorkerRegistry
    private let listening = Mutex<[Listener]>([])
    /// What new requests are served with.
    private let serving: Mutex<ProxyShared>

    /// - Parameters:
    ///   - turns: Counts the turns of the group's loops; nil if they are not counted.
    ///   - descriptorLimit: How many descriptors the process may have; nil where they are not shared out.
    ///   - passed: Sockets that listeners with their addresses accept from.
    ///   - tokenUses: Told of each token of a client that is used.
    ///   - jwts: nil where no signed token proves a client.
    ///   - authority: Signs certificates for the hosts whose connections are intercepted; nil where none are.
    ///   - contexts: Those of upstreams that were made already.
    /// - Throws: ``ListenerError`` when a route's TLS settings cannot be used, or `descriptorLimit` is too low.
    package init(
        group: MultiThreadedEventLoopGroup,
        turns: LoopTurns? = nil,
        configuration: ProxyConfiguration,
        clock: any GatewayClock,
        observer: any ExchangeObserver,
        logger: Logger,
        descriptorLimit: Int? = nil,
        passed: PassedSockets = .none,
        tokenUses: ClientTokenUses? = nil,
        jwts: ClientJWTParts? = nil,
        authority: (any LeafAuthority)? = nil,
        contexts: UpstreamTLSContexts = UpstreamTLSContexts()
    ) throws {
        self.group = group
        self.passed = passed
        let loops = Array(group.makeIterator())
        state = ProxyState(
            clock: clock,
            observer: observer,
            logger: logger,
            limits: configuration.limits,
            workers: loops.count,
            descriptorLimit: descriptorLimit,
            tokenUses: tokenUses,
            jwts: jwts,
            authority: authority
        )
        let shared = try ProxyShared(
            configuration: configuration,
            workers: loops.count,
            state: state,
            contexts: contexts
        )
        if let shortage = shared.descriptors.shortage { logger.warning("\(shortage)") }
        workers = WorkerRegistry(loops: loops, turns: turns, shared: shared)
        serving = Mutex(shared)
    }

    /// Reads all certificates and keys of listeners and routes, as a start would.
    ///
    /// - Throws: ``ListenerError`` for the first that cannot be used.
    package static func readTLS(
        of listeners: [ListenerPlan],
        admin: AdminPlan,
        routes: [RoutePlan],
        limits: Limits
    ) throws(ListenerError) {
        for listener in listeners { _ = try Listener.Settings(listener, limits) }
        if let tls = admin.tls { _ = try OperatorTLS.prepare(tls) }
        var contexts = UpstreamTLSContexts()
        for route in routes { _ = try contexts.context(of: route) }
    }

    /// Binds every listener, or none: the first failure closes the ones already bound. Nothing is accepted yet.
    ///
    /// - Throws: ``ListenerError`` that names the address and what to do.
    package func bind(_ listeners: [ListenerPlan]) async throws -> [BoundListener] {
        try passed.requireUse(by: listeners)
        let limits = serving.withLock { $0.limits }
        let settings = try listeners.map { try Listener.Settings($0, limits) }
        let opened = try await open(settings, beside: listeners.map(\.address))
        listening.withLock { $0 += opened }
        return opened.map(\.bound)
    }

    /// Begins to accept on all bound listeners.
    package func start() {
        for listener in listening.withLock({ $0 }) { listener.start() }
    }

    // MARK: Reload

    /// The addresses in use, with real ports.
    package var bound: [BoundListener] { listening.withLock { $0 }.map(\.bound) }

    /// Makes ready what `configuration` needs and takes the addresses that are new; nothing changes for clients yet.
    ///
    /// - Throws: ``ListenerError``; nothing is left open then.
    package func prepare(
        _ configuration: ProxyConfiguration,
        listeners: [ListenerPlan]
    ) async throws -> PreparedReload {
        let shared = try ProxyShared(
            configuration: configuration,
            workers: workers.count,
            state: state,
            replacing: serving.withLock { $0 }
        )
        let addresses = listeners.map(\.address)
        var present = listening.withLock { $0 }
        var kept: [(listener: Listener, settings: Listener.Settings)] = []
        var new: [Listener.Settings] = []
        for plan in listeners {
            let settings = try Listener.Settings(plan, shared.limits)
            let endpoint = Listener.Endpoint(plan, beside: addresses)
            if let index = present.firstIndex(where: { $0.endpoint == endpoint }) {
                kept.append((present.remove(at: index), settings))
            } else {
                new.append(settings)
            }
        }
        let blocking = present.filter { listener in
            new.contains { $0.plan.address.mayCollide(with: listener.plan.address) }
        }
        let opened = try await open(new, inPlaceOf: blocking, beside: addresses)
        return PreparedReload(shared: shared, kept: kept, opened: opened)
    }

    /// Closes `blocking` first; if the new ones cannot be opened, they are opened again.
    private func open(
        _ new: [Listener.Settings],
        inPlaceOf blocking: [Listener],
        beside addresses: [ListenerPlan.Address]
    ) async throws -> [Listener] {
        for listener in blocking { await listener.stop() }
        do {
            return try await open(new, beside: addresses)
        } catch {
            await openAgain(blocking)
            throw error
        }
    }

    /// What was closed to make room for listeners that could not be opened.
    private func openAgain(_ closed: [Listener]) async {
        guard !closed.isEmpty else { return }
        let addresses = listening.withLock { $0 }.map(\.plan.address)
        do {
            let opened = try await open(closed.map(\.current), beside: addresses)
            listening.withLock { listening in
                listening.removeAll { listener in closed.contains { $0 === listener } }
                listening += opened
            }
            for listener in opened { listener.start() }
        } catch {
            state.logger.error("\(error) It was closed to make room for listeners that could not be opened.")
        }
    }

    /// Serves new requests as prepared; those under way finish on what they began with. Listeners that are no longer
    /// wanted are closed, and their connections end with the request that they are at.
    ///
    /// Requests under way end if the reload takes their right away (``ReloadWithdrawal``).
    ///
    /// - Returns: The numbers of the workers that have not answered within a second.
    package func apply(_ prepared: PreparedReload) async -> [Int] {
        let shared = prepared.shared
        state.headMemory.setLimit(shared.limits.headMemory)
        state.uploads.setLimit(shared.limits.uploadMemory)
        let old = serving.withLock { serving in
            defer { serving = shared }
            return serving
        }
        if let shortage = shared.descriptors.shortage, shortage != old.descriptors.shortage {
            state.logger.warning("\(shortage)")
        }
        let late = await workers.tell(within: .seconds(1)) { $0.replace(with: shared) }
        var outdated = Set(prepared.kept.compactMap { $0.listener.change(to: $0.settings) })
        let wanted = prepared.kept.map(\.listener) + prepared.opened
        let unwanted = listening.withLock { listening in
            defer { listening = wanted }
            return listening.filter { listener in !wanted.contains { $0 === listener } }
        }
        for listener in prepared.opened { listener.start() }
        for listener in unwanted {
            outdated.insert(listener.number)
            await listener.stop()
        }
        guard !outdated.isEmpty else { return late }
        let numbers = outdated
        _ = await workers.tell(within: .seconds(1)) { $0.drain(acceptedBy: numbers) }
        return late
    }

    // MARK: Withdrawal

    /// Ends everything under way with credentials that were taken from these sources. Once all workers have answered, no byte of a
    /// request or a tunnel is written with one of them.
    ///
    /// - Parameter sources: Those whose operator has locked, revoked or cleared their token.
    /// - Returns: The numbers of the workers that have not answered within a second.
    package func withdraw(_ sources: [any CredentialSource]) async -> [Int] {
        let withdrawn = WithdrawnCredentials(sources)
        guard !withdrawn.isEmpty else { return [] }
        return await workers.tell(within: .seconds(1)) { $0.withdraw(withdrawn) }
    }

    /// - Parameters:
    ///   - silent: The numbers of the workers that have not answered within a second.
    ///   - what: What they would have confirmed.
    /// - Returns: A sentence for the operator; nil when all have answered.
    package static func warning(of silent: [Int], that what: String) -> String? {
        guard !silent.isEmpty else { return nil }
        let workers = silent.map(String.init).joined(separator: ", ")
        return "Worker \(workers) has not confirmed within a second that \(what)."
    }

    // MARK: Approval

    /// The requests about which an operator has to decide, oldest first.
    package var heldRequests: [HeldRequest] { state.approvals.waiting }

    /// An operator approves a request that is held, or denies it.
    ///
    /// - Parameter approver: Who approves it; nil denies it.
    /// - Returns: nil if no such request waits.
    package func decide(_ id: String, approver: String?) -> HeldRequest? {
        state.approvals.decide(id, approver: approver)
    }

    // MARK: Stopping

    /// Stops accepting, lets exchanges under way finish, closes what is left when `limit` has passed.
    package func drain(within limit: Duration) async {
        state.beginDraining()
        state.approvals.close()
        await closeListeners()
        await workers.forEach { $0.beginDraining() }
        let deadline = ContinuousClock.now + limit
        while state.connectionCount > 0, ContinuousClock.now < deadline {
            try? await Task.sleep(for: .milliseconds(20))
        }
        await workers.forEach { $0.closeAll() }
    }

    /// - Parameter addresses: Of all listeners that are wanted, whether they are open already or not.
    private func open(
        _ all: [Listener.Settings],
        beside addresses: [ListenerPlan.Address]
    ) async throws -> [Listener] {
        var opened: [Listener] = []
        let sockets = all.reduce(0) { $0 + $1.plan.address.socketCount }
        let listeners = sockets + listening.withLock { $0.reduce(0) { $0 + $1.bound.address.socketCount } }
        let batch = DescriptorShares.accepts(of: state.descriptorLimit, listeners: listeners)
        do {
            for settings in all {
                opened.append(
                    try await Listener.bind(
                        settings,
                        at: Listener.Endpoint(settings.plan, beside: addresses),
                        passed: passed,
                        group: group,
                        workers: workers,
                        descriptorLimit: state.descriptorLimit,
                        batch: batch,
                        logger: state.logger
                    )
                )
            }
        } catch {
            for listener in opened { await listener.stop() }
            throw error
        }
        return opened
    }

    private func closeListeners() async {
        let listeners = listening.withLock { listeners in
            defer { listeners = [] }
            return listeners
        }
        for listener in listeners { await listener.stop() }
    }
}

/// Why the data plane cannot listen or serve as the configuration says; names the address or the key, and says what to do.
package struct ListenerError: Error, Sendable, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}
