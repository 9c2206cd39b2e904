import HummingbirdCore
import NIOCore
import Synchronization

/// An accepted connection that closes itself unless a caller takes it.
///
/// NIO drops what comes in while the listener closes, and an asynchronous channel that is dropped unfinished traps.
final class AcceptedConnection: Sendable {
    private let channel: HTTP1Channel.Value
    private let isTaken = Atomic(false)

    init(_ channel: HTTP1Channel.Value) { self.channel = channel }

    /// The caller that takes it finishes it.
    func take() -> HTTP1Channel.Value {
        isTaken.store(true, ordering: .relaxed)
        return channel
    }

    deinit {
        guard !isTaken.load(ordering: .relaxed) else { return }
        let channel = channel
        Task { try? await channel.executeThenClose { _, _ in } }
    }
}
