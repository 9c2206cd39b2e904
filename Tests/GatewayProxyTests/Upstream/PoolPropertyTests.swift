import GatewayTesting
import Testing

/// Random events in any order, before one budget: what must hold whatever happens.
@Suite("Pool: properties", .timeLimit(.minutes(5)))
struct PoolPropertyTests {
    @Test(arguments: 0..<12, [false, true])
    func everyLeaseAndEveryWaitHasOneEnd(_ seed: UInt64, _ isShared: Bool) {
        var random = SplitMix(seed: seed &+ 1)
        for round in 0..<20 {
            let world = PoolWorld(
                pools: Int.random(in: 1...3, using: &random),
                maximum: Int.random(in: 1...(isShared ? 12 : 6), using: &random),
                maximumWaiters: Int.random(in: 0...8, using: &random),
                isShared: isShared
            )
            let events = play(world, &random)
            world.finish(random: &random)
            world.check(isSettled: true)
            world.checkThatNothingIsLeft()
            if let complaint = world.complaints.first {
                let text = "seed \(seed), round \(round): \(complaint) after \(events.suffix(30))"
                Issue.record(Comment(rawValue: text))
                return
            }
            #expect(world.served > 0 && world.served + world.refused > 20)
        }
    }

    private func play(_ world: PoolWorld, _ random: inout SplitMix) -> [String] {
        var events: [String] = []
        for _ in 0..<400 {
            let event = Int.random(in: 0..<27, using: &random)
            let pool = world.poolIndices.randomElement(using: &random) ?? 0
            events.append("\(event) of \(pool)")
            switch event {
            case 0..<7:
                let client = ["a", "a", "a", "b", "c", nil].randomElement(using: &random) ?? nil
                let isUrgent = Int.random(in: 0..<6, using: &random) == 0
                world.request(
                    pool,
                    client: client,
                    isUrgent: isUrgent,
                    isPrivate: Int.random(in: 0..<6, using: &random) == 0,
                    mayRepeat: .random(using: &random)
                )
            case 7..<11: world.putBack(pool, random: &random)
            case 11..<14: world.finishDial(pool, random: &random)
            case 14, 15: world.endOne(pool, .closing, random: &random)
            case 16:
                let lease = [PoolWorld.Lease.idle, .kept, .leased].randomElement(using: &random)
                world.endOne(pool, lease ?? .idle, random: &random)
            case 17: world.leave(pool, timesOut: .random(using: &random), random: &random)
            case 18:
                let pauses: [Duration] = [.milliseconds(3), .milliseconds(15), .seconds(3), .seconds(200)]
                world.wait(pauses.randomElement(using: &random) ?? .zero)
            case 19: if Int.random(in: 0..<40, using: &random) == 0 { world.retire(pool) }
            case 20: world.takeKept(pool, random: &random)
            case 21, 22: world.keep(pool, random: &random)
            case 23..<26: world.runTask()
            default:
                world.settle()
                world.check(isSettled: true)
            }
            world.check(isSettled: false)
            if !world.complaints.isEmpty { return events }
        }
        return events
    }
}
