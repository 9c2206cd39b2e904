/// How many exchanges took up to each of ``bounds``, and longer.
///
/// No array: that would be one more place in memory for each route in use.
package struct LatencyCounts: Hashable, Sendable {
    /// Seconds. The counts have one place more, for what took longer than all of them.
    package static let bounds: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
    ]

    package private(set) var counts: SIMD16<UInt32>

    package init(_ counts: SIMD16<UInt32> = SIMD16()) { self.counts = counts }

    package var total: Int { counts.indices.reduce(0) { $0 + Int(counts[$1]) } }

    package mutating func add(_ other: LatencyCounts) { counts &+= other.counts }

    /// The milliseconds that this share of the exchanges took at most, estimated within its bounds; nil without an exchange.
    ///
    /// - Parameter share: 0.5 for the median.
    package func milliseconds(of share: Double) -> Double? {
        let total = total
        guard total > 0 else { return nil }
        let wanted = share * Double(total)
        var before = 0.0
        for index in counts.indices where counts[index] > 0 {
            let count = Double(counts[index])
            if before + count >= wanted { return Self.estimate(index, (wanted - before) / count) * 1000 }
            before += count
        }
        return Self.bounds.last.map { $0 * 1000 }
    }

    /// Seconds; `part` of the way from one bound to the next. Above the last bound nothing is known but that bound.
    private static func estimate(_ index: Int, _ part: Double) -> Double {
        let lower = index == 0 ? 0 : bounds[index - 1]
        let upper = index < bounds.count ? bounds[index] : lower
        return lower + (upper - lower) * part
    }
}
