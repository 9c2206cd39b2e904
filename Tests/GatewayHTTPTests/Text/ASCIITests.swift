import Testing

@testable import GatewayHTTP

@Suite(.timeLimit(.minutes(5)))
struct SameBytesTests {
    private func areSame(_ ours: [UInt8], _ theirs: [UInt8]) -> Bool { ours.span.isSame(as: theirs.span) }

    /// What a client is known by is compared eight bytes at a time: each of them must count, at every length.
    @Test func oneBitMakesADifferenceWhereverItStands() {
        for length in 0...40 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 37) }
            #expect(areSame(bytes, Array(bytes)), "\(length) bytes")
            for position in 0..<length {
                for bit in 0..<8 {
                    var other = bytes
                    other[position] ^= 1 << bit
                    #expect(!areSame(bytes, other), "bit \(bit) of byte \(position) of \(length)")
                }
            }
        }
    }

    @Test func ofTwoLengthsNoneIsTheSame() {
        for (ours, theirs) in [(0, 1), (7, 8), (8, 7), (8, 16), (16, 17), (40, 39)] {
            #expect(!areSame(Array(repeating: 0, count: ours), Array(repeating: 0, count: theirs)))
        }
    }
}
