import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayEvents

@Suite("Merged events", .timeLimit(.minutes(5)))
struct MergedEventsTests {
    private final class Bench {
        var events = MergedEvents<String, Int>(limit: 4) { _ in "others" }
        var budget = RowBudget()
        var now = MonotonicTime(nanoseconds: 0)
        private var number = 0

        /// - Returns: What is written at once.
        func add(_ key: String, for cause: String = "laptop") -> String? {
            number += 1
            let number = number
            return events.add(key, for: cause, id: "id\(number)", at: now, budget: &budget, sample: number)
                .map(Self.text)
        }

        func due(after seconds: Int) -> [String] {
            now = now + .seconds(seconds)
            return events.due(at: now, budget: &budget).map(Self.text)
        }

        func rest() -> [String] { events.rest().map(Self.text) }

        private static func text(_ row: MergedEvents<String, Int>.Row) -> String {
            "\(row.key) \(row.count) of \(row.sample): \(row.ids.joined(separator: " "))"
        }
    }

    @Test func theFirstOfAMinuteIsARowAndTheRestAreAnother() {
        let bench = Bench()
        #expect(bench.add("a") == "a 1 of 1: id1")
        #expect(bench.add("a") == nil)
        #expect(bench.add("a") == nil)
        #expect(bench.due(after: 59) == [])
        #expect(bench.due(after: 1) == ["a 2 of 2: id2 id3"])
        #expect(bench.due(after: 60) == [])
    }

    @Test func behindAMinuteTheNextOneIsARowAgain() {
        let bench = Bench()
        #expect(bench.add("a") == "a 1 of 1: id1")
        #expect(bench.due(after: 60) == [])
        #expect(bench.add("a") == "a 1 of 2: id2")
        #expect(bench.add("a") == nil)
        #expect(bench.due(after: 60) == ["a 1 of 3: id3"])
    }

    /// Between the end of the minute and the next question.
    @Test func whatComesBeforeTheCountIsWrittenIsInIt() {
        let bench = Bench()
        #expect(bench.add("a") == "a 1 of 1: id1")
        bench.now = bench.now + .seconds(90)
        #expect(bench.add("a") == nil)
        #expect(bench.due(after: 0) == ["a 1 of 2: id2"])
    }

    @Test func everyKeyHasAMinuteOfItsOwn() {
        let bench = Bench()
        #expect(bench.add("a") != nil)
        #expect(bench.due(after: 30) == [])
        #expect(bench.add("b") != nil)
        #expect(bench.add("a") == nil)
        #expect(bench.add("b") == nil)
        #expect(bench.due(after: 30) == ["a 1 of 3: id3"])
        #expect(bench.due(after: 30) == ["b 1 of 4: id4"])
    }

    @Test func atTheStopNothingIsLost() {
        let bench = Bench()
        for key in ["a", "b", "a", "a"] { _ = bench.add(key) }
        #expect(bench.rest() == ["a 2 of 3: id3 id4"])
        #expect(bench.rest() == [])
    }

    @Test func aKeyWithoutAPlaceIsCountedUnderAnother() {
        let bench = Bench()
        for key in ["a", "b", "c", "d"] { #expect(bench.add(key, for: key) != nil) }
        #expect(bench.add("e", for: "e") == "others 1 of 5: id5")
        #expect(bench.add("f", for: "f") == nil)
        // One that has a place keeps it.
        #expect(bench.add("d", for: "d") == nil)
        #expect(bench.rest() == ["d 1 of 7: id7", "others 1 of 6: id6"])
    }

    @Test func oneCauseLeavesPlacesForOthers() {
        let bench = Bench()
        bench.events = MergedEvents(limit: 4, limitPerCause: 2) { _ in "others" }
        for key in ["a", "b"] { #expect(bench.add(key, for: "noisy") != nil) }
        #expect(bench.add("c", for: "noisy") == "others 1 of 3: id3")
        #expect(bench.add("d", for: "noisy") == nil)
        #expect(bench.add("e", for: "quiet") == "e 1 of 5: id5")
        // Behind the minute its places are free again.
        #expect(bench.due(after: 60) == ["others 1 of 4: id4"])
        #expect(bench.add("c", for: "noisy") == "c 1 of 6: id6")
    }

    @Test func whatTheBudgetForbidsIsWrittenLater() {
        let bench = Bench()
        for key in ["a", "b", "c"] { #expect(bench.add(key) != nil) }
        // The rest of what one cause may spend in this second.
        while bench.budget.spend(for: "laptop", at: bench.now) {}
        #expect(bench.add("d") == nil)
        #expect(bench.add("d") == nil)
        #expect(bench.due(after: 0) == [])
        #expect(bench.due(after: 1) == ["d 2 of 4: id4 id5"])
        #expect(bench.add("d") == nil)
        #expect(bench.due(after: 59) == ["d 1 of 6: id6"])
    }

    @Test func oneCauseLeavesRoomForOthers() {
        let bench = Bench()
        while bench.budget.spend(for: "noisy", at: bench.now) {}
        #expect(bench.add("a", for: "noisy") == nil)
        #expect(bench.add("b", for: "quiet") == "b 1 of 2: id2")
    }

    @Test func aRowHasAFewIDs() {
        let bench = Bench()
        for _ in 0..<100 { _ = bench.add("a") }
        let row = bench.rest()[0]
        #expect(row.hasPrefix("a 99 of 2: id2 id3 ") && row.hasSuffix(" id16"))
    }

    /// Whatever comes and whenever rows are asked for: each event is in one row, and no second has more rows than the budget allows.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func everyEventIsInOneRow(_ seed: UInt64) {
        var generator = SplitMix(seed: seed)
        var events = MergedEvents<Int, Int>(limit: 40, limitPerCause: seed.isMultiple(of: 2) ? nil : 4) { _ in -1 }
        var budget = RowBudget()
        var (added, written) = (0, 0)
        for second in 0..<300 {
            let now = MonotonicTime(nanoseconds: Int64(second) * 1_000_000_000)
            var rows = events.due(at: now, budget: &budget)
            for _ in 0..<Int.random(in: 0...60, using: &generator) {
                let key = Int.random(in: 0..<80, using: &generator)
                added += 1
                let row = events.add(key, for: "\(key % 7)", id: "", at: now, budget: &budget, sample: key)
                rows += row.map { [$0] } ?? []
            }
            #expect(rows.count <= RowBudget.perSecond)
            written += rows.map(\.count).reduce(0, +)
        }
        written += events.rest().map(\.count).reduce(0, +)
        #expect(written == added)
    }

    @Test func theNumberOfIDsInARowIsLimited() {
        let bench = Bench()
        let most = MergedEvents<String, Int>.maximumIDs
        _ = bench.add("a")
        for _ in 0...most { _ = bench.add("a") }
        let ids = (2...(most + 1)).map { "id\($0)" }.joined(separator: " ")
        #expect(bench.rest() == ["a \(most + 1) of 2: \(ids)"])
    }
}

@Suite("The budget of rows", .timeLimit(.minutes(5)))
struct RowBudgetTests {
    @Test func aSecondHasTenRowsAndACauseFive() {
        var budget = RowBudget()
        let now = MonotonicTime(nanoseconds: 5_000_000_000)
        var spent: [String: Int] = [:]
        for cause in ["a", "b", "c"] {
            for _ in 0..<20 where budget.spend(for: cause, at: now) { spent[cause, default: 0] += 1 }
        }
        #expect(spent == ["a": 5, "b": 5])
        let atItsEnd = budget.spend(for: "c", at: MonotonicTime(nanoseconds: 5_999_999_999))
        let afterIt = budget.spend(for: "c", at: MonotonicTime(nanoseconds: 6_000_000_000))
        #expect(!atItsEnd && afterIt)
    }
}
