package import GatewayCore
package import Logging
import NIOCore
package import NIOPosix
import NIOSSL
import Synchronization

/// A listener that is bound; `port` is the real one when the plan asked for port 0.
package struct BoundListener: Hashable, Sendable {
    package let address: ListenerPlan.Address
    package let port: Int?
    package let isTLS: Bool
}

/// The data plane: accepts, forwards, drains.
package final class ProxyServer: Sendable {
    private let group: MultiThreadedEventLoopGroup
    private let shared: ProxyShared
    private let lanes: LaneDirectory
    private let listening = Mutex<[any Channel]>([])

    /// - Throws: ``ListenerError`` when a route's TLS settings cannot be used.
    package init(
        group: MultiThreadedEventLoopGroup,
        configuration: ProxyConfiguration,
        clock: any GatewayClock,
        observer: any ExchangeObserver,
        logger: Logger
    ) throws {
        self.group = group
        let loops = Array(group.makeIterator())
        shared = try ProxyShared(
            configuration: configuration,
            lanes: loops.count,
            clock: clock,
            observer: observer,
            logger: logger
        )
        lanes = LaneDirectory(loops: loops, shared: shared)
    }

    /// Binds every listener, or none: the first failure closes the ones already bound. Nothing is accepted yet.
    ///
    /// - Throws: ``ListenerError`` that names the address and what to do.
    package func bind(_ listeners: [ListenerPlan]) async throws -> [BoundListener] {
        var bound: [BoundListener] = []
        do {
            for plan in listeners {
                let channel = try await Listener.bind(plan, group: group, lanes: lanes)
                listening.withLock { $0.append(channel) }
                bound.append(
                    BoundListener(address: plan.address, port: channel.localAddress?.port, isTLS: plan.tls != nil)
                )
            }
        } catch {
            await closeListeners()
            throw error
        }
        return bound
    }

    /// Begins to accept on all bound listeners.
    package func start() {
        for channel in listening.withLock({ $0 }) {
            channel.setOption(.autoRead, value: true).whenSuccess { channel.read() }
        }
    }

    /// Stops accepting, lets exchanges under way finish, closes what is left when `limit` has passed.
    package func drain(within limit: Duration) async {
        shared.beginDraining()
        await closeListeners()
        await lanes.forEach { $0.beginDraining() }
        let deadline = ContinuousClock.now + limit
        while shared.connectionCount > 0, ContinuousClock.now < deadline {
            try? await Task.sleep(for: .milliseconds(20))
        }
        await lanes.forEach { $0.closeAll() }
    }

    private func closeListeners() async {
        let channels = listening.withLock { channels in
            defer { channels = [] }
            return channels
        }
        for channel in channels { try? await channel.close() }
    }
}

package struct ListenerError: Error, Sendable, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

/// Finds the lane of an event loop.
final class LaneDirectory: Sendable {
    private let lanes: [ObjectIdentifier: NIOLoopBoundBox<Lane>]

    init(loops: [any EventLoop], shared: ProxyShared) {
        var lanes: [ObjectIdentifier: NIOLoopBoundBox<Lane>] = [:]
        for (number, loop) in loops.enumerated() {
            lanes[ObjectIdentifier(loop)] = .makeBoxSendingValue(
                Lane(number: number, loop: loop, shared: shared),
                eventLoop: loop
            )
        }
        self.lanes = lanes
    }

    /// Call it on `loop`, which must be one of the group's.
    func lane(of loop: any EventLoop) -> Lane? { lanes[ObjectIdentifier(loop)]?.value }

    func forEach(_ body: @escaping @Sendable (Lane) -> Void) async {
        for box in lanes.values {
            try? await box.eventLoop.submit { body(box.value) }.get()
        }
    }
}
