import GatewayHTTP
import Testing

@Suite("When a request had what it needed", .timeLimit(.minutes(5)))
struct RequestTimingsTests {
    @Test func theyFollowEachOther() {
        var timings = RequestTimings()
        #expect(timings.credential == nil && timings.connection == nil && timings.response == nil)
        timings.reached(.credential, after: 5)
        timings.reached(.connection, after: 7)
        #expect(
            timings.credential == .nanoseconds(5) && timings.connection == .nanoseconds(7) && timings.response == nil
        )
        timings.reached(.response, after: 9)
        #expect(timings.response == .nanoseconds(9))
    }

    @Test func thoseOfASecondTryReplaceThoseOfTheFirst() {
        var timings = RequestTimings()
        timings.reached(.credential, after: 1)
        timings.reached(.connection, after: 2)
        timings.reached(.response, after: 3)
        timings.reached(.credential, after: 4)
        #expect(timings.credential == .nanoseconds(4) && timings.connection == nil && timings.response == nil)
    }

    /// The loop's clock is read once for one read, so an event can come before what it follows.
    @Test func noneIsNegative() {
        var timings = RequestTimings()
        timings.reached(.credential, after: -3)
        #expect(timings.credential == .zero)
    }
}
