import NIOCore

/// A connection that has written and not flushed.
protocol Flushable: AnyObject {
    func flushNow()
}

/// Flushes connections once the event loop has served all its sockets.
///
/// Many upstream connections answer the streams of one client connection. To flush each answer apart would cost a system call each.
final class FlushQueue {
    private let loop: any EventLoop
    private var waiting: [any Flushable] = []
    /// Those that are being flushed: both lists keep their memory.
    private var flushing: [any Flushable] = []

    init(loop: any EventLoop) { self.loop = loop }

    /// - Parameter connection: Waits here for the first time since its last flush.
    func add(_ connection: any Flushable) {
        waiting.append(connection)
        guard waiting.count == 1 else { return }
        loop.assumeIsolated().execute { [self] in flush() }
    }

    private func flush() {
        // A flush can end streams, and those can write to others.
        swap(&waiting, &flushing)
        for connection in flushing { connection.flushNow() }
        flushing.removeAll(keepingCapacity: true)
    }
}
