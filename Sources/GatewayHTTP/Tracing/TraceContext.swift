/// What `traceparent` says (W3C Trace Context, level 1): which trace a request belongs to, and which span caused it.
package struct TraceContext: Hashable, Sendable {
    package struct TraceID: Hashable, Sendable {
        package let high: UInt64
        package let low: UInt64

        package init(high: UInt64, low: UInt64) {
            self.high = high
            self.low = low
        }
    }

    package let trace: TraceID
    /// Never 0.
    package let parent: UInt64
    package let isSampled: Bool

    package init(trace: TraceID, parent: UInt64, isSampled: Bool) {
        self.trace = trace
        self.parent = parent
        self.isSampled = isSampled
    }

    /// `00-`, 32 digits, `-`, 16 digits, `-`, two digits.
    package static let length = 55

    /// Reads the value of `traceparent`; nil where it has to be ignored (section 3.2).
    ///
    /// A later version may have more behind it (section 4.3).
    package init?(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) {
        guard value.count >= Self.length else { return nil }
        let start = value.lowerBound
        guard let version = Self.number(bytes, start, digits: 2), version != 0xFF else { return nil }
        guard value.count == Self.length || version > 0 && bytes[start + Self.length] == Self.dash else { return nil }
        for place in [2, 35, 52] where bytes[start + place] != Self.dash { return nil }
        guard let high = Self.number(bytes, start + 3, digits: 16),
            let low = Self.number(bytes, start + 19, digits: 16),
            let parent = Self.number(bytes, start + 36, digits: 16),
            let flags = Self.number(bytes, start + 53, digits: 2),
            high | low != 0, parent != 0
        else { return nil }
        self.init(trace: TraceID(high: high, low: low), parent: parent, isSampled: flags & 1 == 1)
    }

    private static let dash: UInt8 = 0x2D

    /// Lower-case digits only (section 3.2.2).
    private static func number(_ bytes: borrowing Span<UInt8>, _ start: Int, digits: Int) -> UInt64? {
        var number: UInt64 = 0
        for index in start..<(start + digits) {
            let byte = bytes[index]
            guard !(0x41...0x46).contains(byte), let digit = byte.hexValue else { return nil }
            number = number << 4 | UInt64(digit)
        }
        return number
    }
}

/// Which traces are recorded that begin here.
package struct TraceSampling: Hashable, Sendable {
    /// The values of the 56 bits that W3C wants to be random.
    private static let range: UInt64 = 1 << 56
    private let limit: UInt64

    package init(percent: Int) { limit = UInt64(clamping: min(max(percent, 0), 100)) * (Self.range / 100) }

    /// - Parameter trace: Random, so that its value decides.
    package func keeps(_ trace: TraceContext.TraceID) -> Bool { keeps(trace.low) }

    /// - Parameter number: Random.
    package func keeps(_ number: UInt64) -> Bool {
        limit >= Self.range / 100 * 100 || number & (Self.range - 1) < limit
    }
}

/// Makes the numbers of traces and spans. They have to differ, not to be unguessable (SplitMix64).
package struct TraceNumbers: Sendable {
    private var state: UInt64

    /// - Parameter seed: Random, another one for each event loop.
    package init(seed: UInt64) { state = seed }

    /// Never 0.
    package mutating func next() -> UInt64 {
        while true {
            state &+= 0x9E37_79B9_7F4A_7C15
            var number = state
            number = (number ^ number >> 30) &* 0xBF58_476D_1CE4_E5B9
            number = (number ^ number >> 27) &* 0x94D0_49BB_1331_11EB
            number ^= number >> 31
            if number != 0 { return number }
        }
    }
}
