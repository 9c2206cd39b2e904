import GatewayCore
import NIOCore

/// What an event loop keeps over reloads: its connections, its numbering, and the configuration that new requests take.
final class Worker {
    let number: Int
    let loop: any EventLoop
    let clock = LoopClock()
    let buffers = SpareBuffers()
    let deadlines: DeadlineQueue
    /// nil before the first and after the last.
    private(set) var current: WorkerConfiguration?
    var requests: UInt64 = 0
    var connections: [ObjectIdentifier: HTTP1ClientConnection] = [:]

    init(number: Int, loop: any EventLoop, shared: ProxyShared) {
        self.number = number
        self.loop = loop
        deadlines = DeadlineQueue(loop: loop)
        current = WorkerConfiguration(worker: self, shared: shared, replacing: nil)
    }

    /// From now on requests are served by `shared`; one under way finishes on what it began with.
    func replace(with shared: ProxyShared) {
        guard let old = current else { return }
        current = WorkerConfiguration(worker: self, shared: shared, replacing: old)
        for connection in Array(connections.values) { connection.followReloadIfIdle() }
    }

    /// Lets these listeners' connections finish what they are at, and closes them.
    func drain(acceptedBy listeners: Set<Int>) {
        for connection in Array(connections.values) where listeners.contains(connection.listenerNumber) {
            connection.drain()
        }
    }

    /// Ends exchanges whose credential was taken from one of these sources.
    func withdraw(_ sources: Set<ObjectIdentifier>) {
        for connection in Array(connections.values) { connection.endIfWithdrawn(sources) }
    }

    func beginDraining() {
        for connection in Array(connections.values) { connection.drain() }
        current?.closeIdle()
    }

    func closeAll() {
        for connection in Array(connections.values) { connection.stop() }
        current?.closeIdle()
        current = nil
    }
}
