import Foundation

var keptTo = true
for benchmark in HeadBenchmarks.all() + [try await ExchangeBenchmark.make()] {
    keptTo = try benchmark.run() && keptTo
}
exit(keptTo ? 0 : 1)
