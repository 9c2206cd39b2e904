import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayApp

@Suite(.timeLimit(.minutes(5)))
struct VendingLimitsTests {
    private let clock = ManualClock()
    private var now: MonotonicTime { clock.now().monotonic }

    @Test func oneClientThatAsksTooOftenDoesNotKeepOthersAway() {
        var limits = VendingLimits()
        for _ in 0..<VendingLimits.burst { #expect(limits.enter("eager", waits: false, at: now) == nil) }
        #expect(limits.enter("eager", waits: false, at: now)?.kind == .overloaded)
        #expect(limits.enter("other", waits: false, at: now) == nil)
        clock.advance(by: .seconds(1))
        #expect(limits.enter("eager", waits: false, at: now) == nil)
        #expect(limits.enter("eager", waits: false, at: now) != nil)
    }

    @Test func aFloodWithinEachMillisecondDoesNotKeepOthersFromRegainingTheirs() {
        var limits = VendingLimits()
        for _ in 0..<VendingLimits.burst { #expect(limits.enter("other", waits: false, at: now) == nil) }
        #expect(limits.enter("other", waits: false, at: now) != nil)
        for _ in 0..<2001 {
            clock.advance(by: .microseconds(500))
            _ = limits.enter("eager", waits: false, at: now)
        }
        #expect(limits.enter("other", waits: false, at: now) == nil)
    }

    @Test func oneClientThatWaitsDoesNotKeepOthersAway() {
        var limits = VendingLimits()
        for _ in 0..<VendingLimits.maximumWaitingOfOne { #expect(limits.enter("eager", waits: true, at: now) == nil) }
        #expect(limits.enter("eager", waits: true, at: now)?.retryAfter == .seconds(1))
        #expect(limits.enter("eager", waits: false, at: now) == nil, "a token that is at hand")
        #expect(limits.enter("other", waits: true, at: now) == nil)
        limits.leave("eager")
        #expect(limits.enter("eager", waits: true, at: now) == nil)
    }

    @Test func onlySoManyWaitAtATime() {
        var limits = VendingLimits()
        for number in 0..<VendingLimits.maximumWaiting {
            #expect(limits.enter("client-\(number)", waits: true, at: now) == nil)
        }
        #expect(limits.enter("late", waits: true, at: now)?.retryAfter == .seconds(1))
        #expect(limits.enter("late", waits: false, at: now) == nil)
        limits.leave("client-0")
        #expect(limits.enter("late", waits: true, at: now) == nil)
    }
}
