import Metrics
import Synchronization

/// A count that only grows.
final class CounterSeries: CounterHandler {
    private let total = Atomic<Int64>(0)

    var value: Int64 { total.load(ordering: .relaxed) }

    func increment(by amount: Int64) { total.wrappingAdd(max(0, amount), ordering: .relaxed) }
    func reset() { total.store(0, ordering: .relaxed) }
}

/// A value that goes up and down.
final class GaugeSeries: MeterHandler, RecorderHandler {
    private let current = Mutex(0.0)

    var value: Double { current.withLock { $0 } }

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { current.withLock { $0 = value } }
    func increment(by amount: Double) { current.withLock { $0 += amount } }
    func decrement(by amount: Double) { current.withLock { $0 -= amount } }
    func record(_ value: Int64) { set(Double(value)) }
    func record(_ value: Double) { set(value) }
}

/// How values are distributed over fixed buckets. Times are in seconds.
final class HistogramSeries: TimerHandler, RecorderHandler {
    struct Reading: Sendable {
        /// One more than there are bounds: the last counts what is above all of them.
        var counts: [Int64]
        var sum: Double
    }

    let bounds: [Double]
    private let reading: Mutex<Reading>

    init(bounds: [Double]) {
        self.bounds = bounds
        reading = Mutex(Reading(counts: Array(repeating: 0, count: bounds.count + 1), sum: 0))
    }

    var value: Reading { reading.withLock { $0 } }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }
    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
        reading.withLock {
            $0.counts[bucket] += 1
            $0.sum += value
        }
    }

    /// Adds what was counted elsewhere with the same bounds.
    func merge(counts: some Sequence<Int64>, sum: Double) {
        reading.withLock { reading in
            for (index, count) in counts.enumerated() where reading.counts.indices.contains(index) {
                reading.counts[index] += count
            }
            reading.sum += sum
        }
    }
}
