import GatewayCore
import GatewayTokenKeeper
import ServiceLifecycle
import Synchronization

/// Runs the keepers: those of the start, those that a reload brings, and those of subjects that requests name.
final class KeeperSupervisor: Service {
    /// The time that a keeper runs.
    private final class KeeperRun: Sendable {
        let keeper: TokenKeeper
        let end = AsyncStream.makeStream(of: Never.self)

        init(_ keeper: TokenKeeper) { self.keeper = keeper }
    }

    private struct OperatorCommand {
        let tenure: KeeperRun
        let predecessor: KeeperRun?
    }

    /// The last of each token.
    private let tenures = Mutex<[CredentialKey: KeeperRun]>([:])
    private let orders = AsyncStream.makeStream(of: OperatorCommand.self)

    /// Two must not keep one token at a time: this one begins when the one before, whichever reload dropped it, has ended.
    func start(_ keeper: TokenKeeper) {
        let tenure = KeeperRun(keeper)
        let earlier = tenures.withLock { tenures in
            defer { tenures[keeper.key] = tenure }
            return tenures[keeper.key]
        }
        guard case .terminated = orders.continuation.yield(OperatorCommand(tenure: tenure, predecessor: earlier)) else {
            return
        }
        // The gateway is stopping: nobody will run it, and whoever waits for it is told so.
        tenure.end.continuation.finish()
        keeper.close()
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

    private func run(_ order: OperatorCommand) async {
        if let predecessor = order.predecessor {
            for await _ in predecessor.end.stream {}
        }
        // Fails only by cancellation, which ends it all the same.
        try? await order.tenure.keeper.run()
        let key = order.tenure.keeper.key
        tenures.withLock { if $0[key] === order.tenure { $0[key] = nil } }
        order.tenure.end.continuation.finish()
    }
}
