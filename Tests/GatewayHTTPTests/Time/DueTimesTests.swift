import GatewayTesting
import Testing

@testable import GatewayHTTP

@Suite("Times that things are due", .timeLimit(.minutes(5)))
struct DueTimesTests {
    /// Beside a dictionary, which is searched.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func theEarliestComesFirstWhateverChanges(_ seed: UInt64) {
        var random = SplitMix(seed: seed)
        var times = DueTimes<Int>()
        var model: [Int: MonotonicTime] = [:]
        for _ in 0..<500 {
            let id = Int.random(in: 0..<30, using: &random)
            let time = MonotonicTime(nanoseconds: Int64.random(in: 0..<100, using: &random))
            switch Int.random(in: 0..<8, using: &random) {
            case 0...4:
                times.set(time, of: id)
                model[id] = time
            case 5, 6:
                times.remove(id)
                model[id] = nil
            default:
                let due = times.removeAll(until: time)
                #expect(Set(due) == Set(model.filter { $0.value <= time }.keys))
                #expect(due.compactMap { model[$0] } == due.compactMap { model[$0] }.sorted())
                for id in due { model[id] = nil }
            }
            #expect(times.first == model.values.min())
        }
    }
}
