import Foundation

/// SplitMix64 (https://doi.org/10.1145/2714064.2660195), so that each run gives the same figures.
struct Random {
    private var state: UInt64

    init(state: UInt64) { self.state = state }

    private mutating func bits() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }

    /// 0...1.
    mutating func next() -> Double { Double(bits() >> 11) / Double(1 << 53) }

    /// The time to the next of independent events that are 1 apart on average.
    mutating func exponential() -> Double { -log(1 - next()) }
}
