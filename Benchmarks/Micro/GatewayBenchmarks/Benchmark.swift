import CAllocationCount

/// One measured thing: how long it takes, and how often it asks for memory.
struct Benchmark {
    let name: String
    /// What it may ask for, each time; more is a failure.
    let allocations: Double
    let repetitions: Int
    let body: () throws -> Void

    /// - Returns: Whether it kept to its limit.
    func run() throws -> Bool {
        for _ in 0..<1000 { try body() }
        let clock = ContinuousClock()
        let before = allocation_count()
        let start = clock.now
        for _ in 0..<repetitions { try body() }
        let elapsed = clock.now - start
        let allocated = Double(allocation_count() - before) / Double(repetitions)
        let nanoseconds = elapsed / repetitions / .nanoseconds(1)
        let verdict = allocated <= allocations ? "" : "  MORE THAN \(allocations)"
        print("\(name): \(Int(nanoseconds)) ns, \((allocated * 100).rounded() / 100) allocations\(verdict)")
        return verdict.isEmpty
    }
}
