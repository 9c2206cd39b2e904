import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Which keeper works next", .timeLimit(.minutes(5)))
struct WorkScheduleTests {
    private typealias Schedule = WorkSchedule<Int, String>

    private func at(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

    @Test func oneThatIsAddedBeginsAndThenWaitsUntilItIsDue() {
        var schedule = Schedule(limit: 4)
        schedule.add(1, of: "a")
        #expect(schedule.begin(at: at(0)) == [1])
        #expect(schedule.begin(at: at(0)).isEmpty)
        schedule.finished(1, until: at(10))
        #expect(schedule.nextDue == at(10))
        #expect(schedule.begin(at: at(9)).isEmpty)
        #expect(schedule.begin(at: at(10)) == [1])
        #expect(schedule.nextDue == nil)
    }

    @Test func oneThatIsWokenGoesBeforeItsTimeAndOnceMoreWhereItWorks() {
        var schedule = Schedule(limit: 4)
        schedule.add(1, of: "a")
        _ = schedule.begin(at: at(0))
        schedule.finished(1, until: at(10))
        schedule.wake(1, .background)
        #expect(schedule.begin(at: at(1)) == [1])
        schedule.wake(1, .request)
        #expect(schedule.begin(at: at(1)).isEmpty)
        schedule.finished(1, until: at(10))
        #expect(schedule.begin(at: at(1)) == [1])
        schedule.finished(1, until: nil)
        #expect(schedule.begin(at: at(100)).isEmpty)
    }

    @Test func aGroupHasItsLimitAndKeepsNoOtherWaiting() {
        var schedule = Schedule(limit: 2)
        for id in 1...5 { schedule.add(id, of: "slow") }
        schedule.add(9, of: "other")
        #expect(Set(schedule.begin(at: at(0))) == [1, 2, 9])
        schedule.finished(1, until: nil)
        #expect(schedule.begin(at: at(0)) == [3])
        schedule.remove(2)
        #expect(schedule.begin(at: at(0)) == [4])
    }

    @Test func allGroupsHaveALimitAndEachHasAFewInAnyCase() {
        var schedule = Schedule(WorkLimits(group: 8, all: 10, reserved: 2))
        for group in 0..<20 {
            for number in 0..<10 { schedule.add(group * 10 + number, of: "\(group)") }
        }
        let begun = schedule.begin(at: at(0))
        let working = Dictionary(grouping: begun) { $0 / 10 }.mapValues(\.count)
        #expect(working.count == 20, "no group stops another")
        #expect(working.values.max() ?? 0 <= 8)
        #expect(begun.count <= 10 + 20 * 2)
        #expect(schedule.begin(at: at(0)).isEmpty)
    }

    @Test func groupsThatWaitForOthersTakeTurnsAndAllGetThere() {
        var schedule = Schedule(WorkLimits(group: 4, all: 4, reserved: 1))
        for group in 0..<5 {
            for number in 0..<100 { schedule.add(group * 100 + number, of: "\(group)") }
        }
        var working = schedule.begin(at: at(0))
        var done: [Int] = []
        while let next = working.first, done.count < 1000 {
            working.removeFirst()
            done.append(next)
            schedule.finished(next, until: nil)
            working += schedule.begin(at: at(0))
            #expect(working.count <= 4 + 5)
        }
        #expect(Set(done).count == 500)
        let early = Dictionary(grouping: done.prefix(250)) { $0 / 100 }.mapValues(\.count)
        #expect(early.values.min() ?? 0 >= 30, "\(early)")
    }

    /// A worker that is removed while its group waits makes room all the same.
    @Test func aGroupThatLeavesWhileItWaitsTakesNoRoom() {
        var schedule = Schedule(WorkLimits(group: 4, all: 1, reserved: 1))
        schedule.add(1, of: "a")
        #expect(schedule.begin(at: at(0)) == [1])
        schedule.add(2, of: "a")
        #expect(schedule.begin(at: at(0)).isEmpty)
        schedule.add(3, of: "b")
        #expect(schedule.begin(at: at(0)) == [3])
        schedule.remove(2)
        schedule.remove(3)
        schedule.add(4, of: "a")
        schedule.remove(1)
        #expect(schedule.begin(at: at(0)) == [4])
        #expect(schedule.begin(at: at(0)).isEmpty)
    }

    @Test func aRequestComesBeforeTheBackgroundAndACommandBeforeTheLimit() {
        var schedule = Schedule(limit: 1)
        for id in 1...4 { schedule.add(id, of: "a") }
        #expect(schedule.begin(at: at(0)) == [1])
        schedule.wake(3, .request)
        schedule.wake(3, .background)
        schedule.wake(4, .command)
        #expect(schedule.begin(at: at(0)) == [4])
        schedule.finished(4, until: nil)
        schedule.finished(1, until: nil)
        #expect(schedule.begin(at: at(0)) == [3])
        schedule.finished(3, until: nil)
        #expect(schedule.begin(at: at(0)) == [2])
        schedule.finished(2, until: nil)
        #expect(schedule.begin(at: at(0)).isEmpty)
    }

    /// Whatever happens: none works twice at a time, no group has more than its limit, and all that were woken get their turn.
    @Test(arguments: 0..<50) func randomEventsKeepTheRules(_ seed: UInt64) {
        var random = SplitMix(seed: seed)
        var schedule = Schedule(limit: 3)
        var (working, owed): (Set<Int>, Set<Int>) = ([], [])
        var groups: [Int: String] = [:]
        func begin(_ now: Int64) {
            for id in schedule.begin(at: at(now)) {
                #expect(working.insert(id).inserted)
                owed.remove(id)
            }
            for group in Set(groups.values) { #expect(working.count { groups[$0] == group } <= 3) }
        }
        for step in Int64(0)..<400 {
            let id = Int.random(in: 0..<20, using: &random)
            switch Int.random(in: 0..<4, using: &random) {
            case 0 where groups[id] == nil:
                groups[id] = "g\(id % 3)"
                schedule.add(id, of: "g\(id % 3)")
                owed.insert(id)
            case 1 where groups[id] != nil:
                schedule.wake(id, Bool.random(using: &random) ? .request : .background)
                owed.insert(id)
            case 2 where working.contains(id):
                working.remove(id)
                schedule.finished(id, until: Bool.random(using: &random) ? at(step + 5) : nil)
            case 3 where working.contains(id):
                working.remove(id)
                groups[id] = nil
                owed.remove(id)
                schedule.remove(id)
            default: break
            }
            begin(step)
        }
        while let id = working.popFirst() {
            schedule.finished(id, until: nil)
            begin(400)
        }
        #expect(owed.isEmpty)
    }
}
