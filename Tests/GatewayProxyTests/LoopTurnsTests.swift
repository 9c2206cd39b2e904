import NIOCore
import NIOPosix
import Testing

@testable import GatewayProxy

@Suite("Turns of an event loop", .timeLimit(.minutes(5)))
struct LoopTurnsTests {
    private static func at(_ microseconds: UInt64) -> NIODeadline { .uptimeNanoseconds(microseconds * 1000) }

    @Test func aLoopThatDoesNotRestIsBusySinceTheTurnBefore() {
        var watch = TurnWatch()
        watch.read(at: Self.at(100), in: 7, behind: Self.at(90))
        #expect(watch.busySince(in: 7) == nil, "of the turn before nothing is known")
        watch.read(at: Self.at(5000), in: 7, behind: Self.at(90))
        #expect(watch.busySince(in: 7) == nil)
        watch.read(at: Self.at(9500), in: 8, behind: Self.at(9000))
        #expect(watch.busySince(in: 8) == Self.at(100))
        watch.read(at: Self.at(20_000), in: 8, behind: Self.at(9000))
        #expect(watch.busySince(in: 8) == Self.at(100), "however long the turn is")
        watch.read(at: Self.at(20_600), in: 9, behind: Self.at(20_500))
        #expect(watch.busySince(in: 9) == Self.at(9500))
    }

    @Test func aRestOrATurnWithoutAReadEndsIt() {
        var watch = TurnWatch()
        watch.read(at: Self.at(100), in: 1, behind: Self.at(90))
        watch.read(at: Self.at(1300), in: 2, behind: Self.at(300))
        #expect(watch.busySince(in: 2) == nil, "it waited for a millisecond")
        watch.read(at: Self.at(1500), in: 3, behind: Self.at(1400))
        #expect(watch.busySince(in: 3) == Self.at(1300))
        #expect(watch.busySince(in: 4) == nil, "nothing was read in the turn that is under way")
        watch.read(at: Self.at(1800), in: 5, behind: Self.at(1700))
        #expect(watch.busySince(in: 5) == nil, "nothing was read in the turn before")
    }

    @Test func eachLoopHasACountOfItsOwn() async throws {
        let turns = LoopTurns(loops: 2)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2, metricsDelegate: turns)
        for loop in group.makeIterator() {
            let count = try #require(turns.count(of: loop))
            let before = count.turn
            // Each comes after a wait, and so in a turn of its own.
            for _ in 0..<3 { try await loop.scheduleTask(in: .milliseconds(1)) {}.futureResult.get() }
            #expect(count.turn >= before + 2)
            #expect(count.lastEnd <= .now() && count.lastEnd > .uptimeNanoseconds(0))
        }
        #expect(turns.count(of: MultiThreadedEventLoopGroup.singleton.any()) == nil)
        try await group.shutdownGracefully()
    }
}
