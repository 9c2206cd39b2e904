import GatewayCore
import GatewayTesting
import Testing

@testable import GatewayRuntime

struct VendingLimitsTests {
    private let clock = ManualClock()
    private var now: MonotonicTime { clock.now().monotonic }

    @Test func oneClientThatAsksTooOftenDoesNotKeepOthersAway() {
        var limits = VendingLimits()
        for _ in 0..<VendingLimits.burst {
            #expect(limits.enter("eager", at: now) == nil)
            limits.leave()
        }
        #expect(limits.enter("eager", at: now)?.kind == .overloaded)
        #expect(limits.enter("other", at: now) == nil)
        limits.leave()
        clock.advance(by: .seconds(1))
        #expect(limits.enter("eager", at: now) == nil)
        limits.leave()
        #expect(limits.enter("eager", at: now) != nil)
    }

    @Test func onlySoManyAreUnderWayAtATime() {
        var limits = VendingLimits()
        for number in 0..<VendingLimits.mostAtATime { #expect(limits.enter("client-\(number)", at: now) == nil) }
        #expect(limits.enter("late", at: now)?.retryAfter == .seconds(1))
        limits.leave()
        #expect(limits.enter("late", at: now) == nil)
    }
}
