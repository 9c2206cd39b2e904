import GatewayCore
import GatewayTokenKeeper
import ServiceLifecycle
import Synchronization

/// Runs the keepers: those of the start, those that a reload brings, and those of subjects that requests name.
final class KeeperSupervisor: Service {
    /// One run of a keeper, from its start to its end.
    private final class KeeperRun: Sendable {
        let keeper: TokenKeeper
        let end = AsyncStream.makeStream(of: Never.self)

        init(_ keeper: TokenKeeper) { self.keeper = keeper }
    }

    /// A run that begins when the run before it has ended.
    private struct QueuedRun {
        let run: KeeperRun
        let predecessor: KeeperRun?
    }

    /// The last run for each token.
    private let runs = Mutex<[CredentialKey: KeeperRun]>([:])
    private let queue = AsyncStream.makeStream(of: QueuedRun.self)

    /// Two must not keep one token at a time: this one begins when the one before, whichever reload dropped it, has ended.
    func start(_ keeper: TokenKeeper) {
        let run = KeeperRun(keeper)
        let earlier = runs.withLock { runs in
            defer { runs[keeper.key] = run }
            return runs[keeper.key]
        }
        guard case .terminated = queue.continuation.yield(QueuedRun(run: run, predecessor: earlier)) else { return }
        // The gateway is stopping: it will not run, and those that wait for it are told so.
        run.end.continuation.finish()
        keeper.close()
    }

    func run() async throws {
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { tasks in
                for await queued in queue.stream {
                    tasks.addTask { await self.run(queued) }
                }
            }
        } onGracefulShutdown: {
            self.queue.continuation.finish()
        }
    }

    private func run(_ queued: QueuedRun) async {
        if let predecessor = queued.predecessor {
            for await _ in predecessor.end.stream {}
        }
        // Fails only by cancellation, which ends it all the same.
        try? await queued.run.keeper.run()
        let key = queued.run.keeper.key
        runs.withLock { if $0[key] === queued.run { $0[key] = nil } }
        queued.run.end.continuation.finish()
    }
}
