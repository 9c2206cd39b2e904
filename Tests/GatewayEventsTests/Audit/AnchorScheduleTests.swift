import GatewayEvents
import GatewayHTTP
import Testing

@Suite("Schedule of the anchor", .timeLimit(.minutes(5)))
struct AnchorScheduleTests {
    private static func moment(_ seconds: Int64) -> Moment {
        Moment(
            monotonic: MonotonicTime(nanoseconds: seconds * 1_000_000_000),
            wall: UnixTime(milliseconds: 1_772_000_000_000 + seconds * 1000)
        )
    }

    @Test func theFirstIsSentAtOnceAndTheNextASecondLater() {
        var schedule = AnchorSchedule()
        #expect(schedule.pause(at: Self.moment(0).monotonic) == .zero)
        let isChange = schedule.ended(nil, at: Self.moment(0))
        #expect(!isChange)
        #expect(schedule.pause(at: Self.moment(0).monotonic) == .seconds(1))
        #expect(schedule.pause(at: MonotonicTime(nanoseconds: 300_000_000)) == .milliseconds(700))
        #expect(schedule.pause(at: Self.moment(9).monotonic) == .zero)
    }

    @Test func failuresAreTriedLessAndLessOften() {
        var schedule = AnchorSchedule()
        var pauses: [Duration] = []
        for _ in 1...9 {
            _ = schedule.ended("no disk", at: Self.moment(0))
            pauses.append(schedule.pause(at: Self.moment(0).monotonic))
        }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60].map { .seconds($0) })
        _ = schedule.ended(nil, at: Self.moment(100))
        #expect(schedule.pause(at: Self.moment(100).monotonic) == .seconds(1))
    }

    @Test func theFirstFailureAndItsEndAreNews() {
        var schedule = AnchorSchedule()
        let news = [nil, "a", "b", nil, nil, "c"].enumerated().map { second, reason in
            schedule.ended(reason, at: Self.moment(Int64(second)))
        }
        #expect(news == [false, true, false, true, false, true])
    }

    @Test func aFailureSaysSinceWhenAndWhyLast() {
        var schedule = AnchorSchedule()
        _ = schedule.ended("no disk", at: Self.moment(5))
        _ = schedule.ended("no answer", at: Self.moment(8))
        #expect(schedule.failure == AuditShipping.Failure(since: Self.moment(5).wall, reason: "no answer"))
        _ = schedule.ended(nil, at: Self.moment(9))
        #expect(schedule.failure == nil)
    }
}
