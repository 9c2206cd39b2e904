import HummingbirdCore
import NIOCore
import Synchronization

/// How many clients a listener has at once, so that the descriptors are the proxy's.
///
/// The oldest connection gives way to one that comes. Otherwise clients that stay connected would keep operators out.
final class ConnectionLimit: Sendable {
    private struct Connections {
        var open: [Int: any Channel] = [:]
        var count = 0
    }

    private let most: Int
    private let connections = Mutex(Connections())

    init(_ most: Int) { self.most = most }

    /// Counts a connection until it ends, and closes the oldest one where there is no room for it.
    func admit(_ channel: any Channel) {
        let (number, oldest) = connections.withLock { connections -> (Int, (any Channel)?) in
            connections.count += 1
            connections.open[connections.count] = channel
            defer { assert(connections.open.count <= most, "Too many connections are open.") }
            guard connections.open.count > most, let first = connections.open.keys.min() else {
                return (connections.count, nil)
            }
            return (connections.count, connections.open.removeValue(forKey: first))
        }
        channel.closeFuture.whenComplete { _ in
            self.connections.withLock { _ = $0.open.removeValue(forKey: number) }
        }
        oldest?.close(promise: nil)
    }
}

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
