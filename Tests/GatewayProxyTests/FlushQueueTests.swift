import NIOEmbedded
import Testing

@testable import GatewayProxy

@Suite("Flushes at the end of a turn", .timeLimit(.minutes(1)))
struct FlushQueueTests {
    private final class Connection: Flushable {
        var flushes = 0
        var onFlush: () -> Void = {}

        func flushNow() {
            flushes += 1
            onFlush()
        }
    }

    @Test func connectionsAreFlushedOnceTheTurnIsOver() {
        let loop = EmbeddedEventLoop()
        let queue = FlushQueue(loop: loop)
        let (first, second) = (Connection(), Connection())
        queue.add(first)
        queue.add(second)
        #expect(first.flushes == 0 && second.flushes == 0)
        loop.run()
        #expect(first.flushes == 1 && second.flushes == 1)
        loop.run()
        #expect(first.flushes == 1)
    }

    /// A flush can end streams, and those write to other connections.
    @Test func oneThatAFlushAddsIsFlushedToo() {
        let loop = EmbeddedEventLoop()
        let queue = FlushQueue(loop: loop)
        let (first, second) = (Connection(), Connection())
        first.onFlush = { queue.add(second) }
        queue.add(first)
        loop.run()
        #expect(first.flushes == 1 && second.flushes == 1)
        first.onFlush = {}
        queue.add(first)
        loop.run()
        #expect(first.flushes == 2)
    }
}
