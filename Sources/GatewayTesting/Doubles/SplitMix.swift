import Foundation

/// A small generator with a seed that a failure can name, so that its run can be repeated (Steele, Lea, Flood: "SplitMix").
///
/// An ordinary run gives each test the seed that it asks for. `AUTHGATEWAY_SEED` moves all seeds: `random` by a number that
/// is drawn and printed once for each process, and a number repeats such a run.
package struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    package init(seed: UInt64) { state = seed &+ Self.offset }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    private static let offset: UInt64 = {
        let asked = ProcessInfo.processInfo.environment["AUTHGATEWAY_SEED"] ?? ""
        guard asked == "random" else { return UInt64(asked) ?? 0 }
        let drawn = UInt64(UInt32.random(in: 1 ... .max))
        // Unbuffered: the process may trap.
        FileHandle.standardError.write(Data("AUTHGATEWAY_SEED=\(drawn) repeats this run\n".utf8))
        return drawn
    }()
}
