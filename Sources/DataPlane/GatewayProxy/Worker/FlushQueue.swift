import NIOCore

/// What has written to its connection, and not flushed.
protocol Flushable: AnyObject {
    func flushNow()
}

/// Has what was written while the event loop serves its sockets leave when all of them are served.
///
/// Streams of one connection are answered by many upstream connections. Each answer by itself would cost a call of the system.
final class FlushQueue {
    private let loop: any EventLoop
    private var waiting: [any Flushable] = []

    init(loop: any EventLoop) { self.loop = loop }

    /// - Parameter connection: Waits here for the first time since its last flush.
    func add(_ connection: any Flushable) {
        waiting.append(connection)
        guard waiting.count == 1 else { return }
        loop.assumeIsolated().execute { [self] in flush() }
    }

    private func flush() {
        // A flush can end streams, and those can write to others.
        let connections = waiting
        waiting.removeAll(keepingCapacity: true)
        for connection in connections { connection.flushNow() }
    }
}
