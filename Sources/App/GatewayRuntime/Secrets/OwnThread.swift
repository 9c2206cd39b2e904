import Foundation
import Synchronization

/// Runs what blocks on a thread of its own while it lasts.
enum OwnThread {
    private final class Cancellation: Sendable {
        let isCancelled = Atomic(false)
    }

    /// - Parameter work: Is given what tells whether the task that waits for it was cancelled.
    static func run<Value: Sendable>(
        _ work: @escaping @Sendable (_ isCancelled: () -> Bool) -> Value
    ) async -> Value {
        let cancellation = Cancellation()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { done in
                Thread.detachNewThread {
                    done.resume(returning: work { cancellation.isCancelled.load(ordering: .relaxed) })
                }
            }
        } onCancel: {
            cancellation.isCancelled.store(true, ordering: .relaxed)
        }
    }
}
