import NIOCore
import Synchronization

/// How many clients a listener has at once; more are closed when they come, so that the descriptors are the proxy's.
final class ConnectionLimit: Sendable {
    private let most: Int
    private let count = Atomic(0)

    init(_ most: Int) { self.most = most }

    /// Counts a connection until it ends, or closes it.
    ///
    /// - Returns: Fails with ``TooMany`` where there is no room for it.
    func admit(_ channel: any Channel) -> EventLoopFuture<Void> {
        guard count.add(1, ordering: .relaxed).newValue <= most else {
            count.subtract(1, ordering: .relaxed)
            channel.close(promise: nil)
            return channel.eventLoop.makeFailedFuture(TooMany())
        }
        channel.closeFuture.whenComplete { _ in self.count.subtract(1, ordering: .relaxed) }
        return channel.eventLoop.makeSucceededVoidFuture()
    }

    struct TooMany: Error {}
}
