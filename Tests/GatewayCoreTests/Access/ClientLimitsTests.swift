import GatewayCore
import Testing

@Suite("Limits of a client", .timeLimit(.minutes(5)))
struct ClientLimitsTests {
    private static let start = MonotonicTime(nanoseconds: 5_000_000_000)

    @Test func aClientWithoutLimitsIsAdmitted() {
        let usage = ClientUsage(ClientLimitsPlan())
        for _ in 0..<10_000 { #expect(usage.begin(at: Self.start) == .admitted) }
        usage.end()
        #expect(usage.runningCount == 0)
    }

    @Test func soManyRequestsRunAtATime() {
        let usage = ClientUsage(ClientLimitsPlan(concurrent: 2))
        #expect(usage.begin(at: Self.start) == .admitted)
        #expect(usage.begin(at: Self.start) == .admitted)
        #expect(usage.begin(at: Self.start) == .tooManyConcurrent)
        #expect(usage.runningCount == 2)
        usage.end()
        #expect(usage.begin(at: Self.start) == .admitted)
        #expect(usage.begin(at: Self.start) == .tooManyConcurrent)
    }

    @Test(arguments: [1, 3, 10, 7000]) func oneSecondsRequestsComeAtOnceAndThenAtTheirRate(_ rate: Int) {
        let usage = ClientUsage(ClientLimitsPlan(perSecond: rate))
        for _ in 0..<rate { #expect(usage.begin(at: Self.start) == .admitted) }
        let pause = Duration.nanoseconds(1_000_000_000 / rate)
        #expect(usage.begin(at: Self.start) == .tooFast(retryAfter: pause))
        #expect(usage.begin(at: Self.start + pause - .nanoseconds(1)) == .tooFast(retryAfter: .nanoseconds(1)))
        #expect(usage.begin(at: Self.start + pause) == .admitted)
        #expect(usage.begin(at: Self.start + pause) == .tooFast(retryAfter: pause))
        // After a second of rest there are as many as before, and no more.
        let later = Self.start + .seconds(100)
        for _ in 0..<rate { #expect(usage.begin(at: later) == .admitted) }
        #expect(usage.begin(at: later) != .admitted)
    }

    @Test func aClientThatKeepsItsRateIsNeverRefused() {
        let usage = ClientUsage(ClientLimitsPlan(perSecond: 4))
        for number in 0..<1000 {
            #expect(usage.begin(at: Self.start + .milliseconds(250 * number)) == .admitted)
        }
    }

    @Test func aRequestThatIsRefusedCountsForNothing() {
        let usage = ClientUsage(ClientLimitsPlan(concurrent: 1, perSecond: 1))
        #expect(usage.begin(at: Self.start) == .admitted)
        for _ in 0..<100 { #expect(usage.begin(at: Self.start) == .tooManyConcurrent) }
        usage.end()
        for _ in 0..<100 { #expect(usage.begin(at: Self.start) == .tooFast(retryAfter: .seconds(1))) }
        #expect(usage.runningCount == 0)
        #expect(usage.begin(at: Self.start + .seconds(1)) == .admitted)
        #expect(usage.runningCount == 1)
    }

    @Test(arguments: [(0, 0), (-1, -1)]) func limitsOfZeroAdmitNothingAtATime(_ concurrent: Int, _ perSecond: Int) {
        let usage = ClientUsage(ClientLimitsPlan(concurrent: concurrent, perSecond: perSecond))
        #expect(usage.begin(at: Self.start) == .tooManyConcurrent)
    }

    @Test(arguments: [Int64.min + 1, 0, 1]) func theFirstReadingOfTheClockMayBeAny(_ nanoseconds: Int64) {
        let usage = ClientUsage(ClientLimitsPlan(perSecond: 1))
        #expect(usage.begin(at: MonotonicTime(nanoseconds: nanoseconds)) == .admitted)
        #expect(usage.begin(at: MonotonicTime(nanoseconds: nanoseconds)) == .tooFast(retryAfter: .seconds(1)))
    }

    @Test func workersTogetherAdmitNoMore() async {
        let (running, rate) = (
            ClientUsage(ClientLimitsPlan(concurrent: 50)), ClientUsage(ClientLimitsPlan(perSecond: 70))
        )
        let admitted = await withTaskGroup(of: (Int, Int).self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let atATime = (0..<1000).count { _ in running.begin(at: Self.start) == .admitted }
                    let inASecond = (0..<1000).count { _ in rate.begin(at: Self.start) == .admitted }
                    return (atATime, inASecond)
                }
            }
            return await group.reduce((0, 0)) { ($0.0 + $1.0, $0.1 + $1.1) }
        }
        #expect(admitted == (50, 70))
        #expect(running.runningCount == 50)
    }
}
