import GatewayHTTP
import Testing

@testable import GatewayProxy

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

    @Test func aRequestThatIsDecidedAboutAnewCountsOnce() {
        let usage = ClientUsage(ClientLimitsPlan(concurrent: 1, perSecond: 2))
        for _ in 0..<10 {
            #expect(usage.begin(at: Self.start) == .admitted)
            usage.undo()
        }
        #expect(usage.runningCount == 0)
        for _ in 0..<2 {
            #expect(usage.begin(at: Self.start) == .admitted)
            usage.end()
        }
        #expect(usage.begin(at: Self.start) == .tooFast(retryAfter: .milliseconds(500)))
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

    // MARK: Refusals

    private static let tooMany = GatewayProblem(
        .clientLimitReached,
        "This client has as many requests under way as its limits.concurrent allows.",
        retryAfter: .seconds(1)
    )
    private static func tooFast(_ retryAfter: Duration) -> GatewayProblem {
        GatewayProblem(
            .clientLimitReached,
            "This client sends more requests than its limits.per_second allows.",
            retryAfter: retryAfter
        )
    }

    @Test func aClientWithinItsLimitsIsRefusedNothing() {
        let usage = ClientUsage(ClientLimitsPlan(concurrent: 2, perSecond: 2))
        #expect(usage.refusal(at: Self.start) == nil)
        #expect(usage.refusal(at: Self.start) == nil)
        #expect(usage.runningCount == 2)
        #expect(ClientUsage(ClientLimitsPlan()).refusal(at: Self.start) == nil)
    }

    @Test(arguments: [
        (1, [0], Duration.seconds(1)), (1, [0, 400], .milliseconds(600)), (1, [0, 999], .milliseconds(1)),
        (2, [0, 0], .milliseconds(500)), (2, [0, 0, 100], .milliseconds(400)),
        (4, [0, 0, 0, 0, 0], .milliseconds(250)),
        (1000, Array(repeating: 0, count: 1000), .milliseconds(1)),
    ])
    func aClientThatIsTooFastIsToldHowLongToWait(_ rate: Int, _ times: [Int], _ retryAfter: Duration) {
        let usage = ClientUsage(ClientLimitsPlan(perSecond: rate))
        for time in times { _ = usage.refusal(at: Self.start + .milliseconds(time)) }
        let now = Self.start + .milliseconds(times.last ?? 0)
        #expect(usage.refusal(at: now) == Self.tooFast(retryAfter))
        #expect(usage.refusal(at: now + retryAfter - .nanoseconds(1)) == Self.tooFast(.nanoseconds(1)))
        #expect(usage.refusal(at: now + retryAfter) == nil)
    }

    @Test func aClientWithTooManyRequestsIsToldSo() {
        let usage = ClientUsage(ClientLimitsPlan(concurrent: 1))
        #expect(usage.refusal(at: Self.start) == nil)
        #expect(usage.refusal(at: Self.start + .seconds(60)) == Self.tooMany)
        usage.end()
        #expect(usage.refusal(at: Self.start + .seconds(60)) == nil)
    }

    /// Of both limits the number of requests under way is the one that is named: waiting alone would not help.
    @Test func theLimitThatIsReachedIsNamed() {
        let usage = ClientUsage(ClientLimitsPlan(concurrent: 1, perSecond: 1))
        #expect(usage.refusal(at: Self.start) == nil)
        #expect(usage.refusal(at: Self.start) == Self.tooMany)
        usage.end()
        #expect(usage.refusal(at: Self.start) == Self.tooFast(.seconds(1)))
        #expect(usage.refusal(at: Self.start) == Self.tooFast(.seconds(1)))
        #expect(usage.runningCount == 0)
        #expect(ProblemKind.clientLimitReached.status == 429)
    }

    /// An explanation looks at the limits and counts for nothing.
    @Test func anOutlookIsWhatTheNextRequestIsTold() {
        let usage = ClientUsage(ClientLimitsPlan(concurrent: 2, perSecond: 1))
        for _ in 0..<5 { #expect(usage.outlook(at: Self.start) == nil) }
        #expect(usage.refusal(at: Self.start) == nil && usage.runningCount == 1)
        for _ in 0..<5 { #expect(usage.outlook(at: Self.start) == Self.tooFast(.seconds(1))) }
        #expect(usage.refusal(at: Self.start) == Self.tooFast(.seconds(1)))
        #expect(usage.refusal(at: Self.start + .seconds(1)) == nil && usage.runningCount == 2)
        #expect(usage.outlook(at: Self.start + .seconds(9)) == Self.tooMany)
        #expect(ClientUsage(ClientLimitsPlan()).outlook(at: Self.start) == nil)
    }

    // MARK: Workers

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
