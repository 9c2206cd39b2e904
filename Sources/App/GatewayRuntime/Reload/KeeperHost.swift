import GatewayTokenKeeper
import ServiceLifecycle
import Synchronization

/// Runs the keepers: those of the start, and those that a reload brings.
final class KeeperHost: Service {
    /// The time that a keeper runs.
    private final class Tenure: Sendable {
        let keeper: TokenKeeper
        let end = AsyncStream.makeStream(of: Never.self)

        init(_ keeper: TokenKeeper) { self.keeper = keeper }
    }

    private struct Order {
        let tenure: Tenure
        let predecessor: Tenure?
    }

    private let tenures = Mutex<[ObjectIdentifier: Tenure]>([:])
    private let orders = AsyncStream.makeStream(of: Order.self)

    init(_ keepers: [TokenKeeper]) {
        for keeper in keepers { start(keeper, after: nil) }
    }

    /// - Parameter predecessor: Kept the same token: two must not do so at a time, so this one begins when that has ended.
    func start(_ keeper: TokenKeeper, after predecessor: TokenKeeper?) {
        let tenure = Tenure(keeper)
        let earlier = tenures.withLock { tenures in
            tenures[ObjectIdentifier(keeper)] = tenure
            return predecessor.flatMap { tenures[ObjectIdentifier($0)] }
        }
        orders.continuation.yield(Order(tenure: tenure, predecessor: earlier))
    }

    func run() async throws {
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { tasks in
                for await order in orders.stream {
                    tasks.addTask { await self.run(order) }
                }
            }
        } onGracefulShutdown: {
            self.orders.continuation.finish()
        }
    }

    private func run(_ order: Order) async {
        if let predecessor = order.predecessor {
            for await _ in predecessor.end.stream {}
        }
        // Fails only by cancellation, which ends it all the same.
        try? await order.tenure.keeper.run()
        tenures.withLock { $0[ObjectIdentifier(order.tenure.keeper)] = nil }
        order.tenure.end.continuation.finish()
    }
}
