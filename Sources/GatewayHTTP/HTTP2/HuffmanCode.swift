/// The code that compresses strings of field blocks (RFC 7541 appendix B).
///
/// It is canonical: codes are in the order of their lengths, and codes of one length in the order of their symbols. So the lengths
/// say everything, and the tables are made from them once. Codes of up to 10 bits, which are those of nearly all that is sent, are
/// looked up at once.
struct HuffmanCode: Sendable {
    static let standard = HuffmanCode()

    private static let lookupBits = 10
    private static let longest = 30
    /// The padding of a string consists of its first bits; as a symbol it is an error.
    private static let endOfString = 256

    /// Length and symbol of the code that the bits begin with; 0 where the code is longer.
    private let short: [UInt16]
    /// In the order of their codes.
    private let symbols: [UInt16]
    /// Per length: the first bits behind its codes, at the top of 32 bits, and the place of its first code less that code.
    private let ends: [UInt64]
    private let offsets: [Int]

    private init() {
        let order = (0...Self.endOfString).sorted { (Self.lengths[$0], $0) < (Self.lengths[$1], $1) }
        var short = [UInt16](repeating: 0, count: 1 << Self.lookupBits)
        var ends = [UInt64](repeating: 0, count: Self.longest + 1)
        var offsets = [Int](repeating: 0, count: Self.longest + 1)
        var (code, place) = (0, 0)
        for length in 1...Self.longest {
            code <<= 1
            offsets[length] = place - code
            while place < order.count, Int(Self.lengths[order[place]]) == length {
                if length <= Self.lookupBits {
                    let unused = Self.lookupBits - length
                    for rest in 0..<1 << unused {
                        short[code << unused | rest] = UInt16(length) << 8 | UInt16(order[place])
                    }
                }
                code += 1
                place += 1
            }
            ends[length] = UInt64(code) << UInt64(32 - length)
        }
        symbols = order.map(UInt16.init)
        (self.short, self.ends, self.offsets) = (short, ends, offsets)
    }

    /// What `count` bytes can become at most: the shortest code has 5 bits.
    static func room(for count: Int) -> Int { count * 8 / 5 }

    /// - Parameter target: Has at least ``room(for:)``.
    /// - Returns: How many bytes were written; nil where the string breaks a rule.
    func decode(_ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) -> Int? {
        guard target.count >= Self.room(for: source.count) else { return nil }
        return unsafe short.withUnsafeBufferPointer { short in
            // The bits that are left stand at the top, with zeros behind them.
            var (bits, count) = (UInt64(0), 0)
            var (read, written) = (0, 0)
            while true {
                if read &+ 8 <= source.count {
                    // Bounds: the condition above. Bits that are already there are read again, and are the same.
                    let word = unsafe source.loadUnaligned(fromByteOffset: read, as: UInt64.self).bigEndian
                    bits |= word &>> UInt64(truncatingIfNeeded: count)
                    let added = (63 &- count) &>> 3
                    read &+= added
                    count &+= added &<< 3
                } else {
                    while count <= 56, read < source.count {
                        bits |= unsafe UInt64(source[read]) &<< UInt64(truncatingIfNeeded: 56 &- count)
                        read &+= 1
                        count &+= 8
                    }
                }
                var isShort = true
                while count > 0 {
                    // Bounds: 10 bits, and `room`.
                    let entry = unsafe short[Int(truncatingIfNeeded: bits &>> UInt64(64 - Self.lookupBits))]
                    let length = Int(entry &>> 8)
                    guard entry != 0, length <= count else {
                        isShort = entry != 0
                        break
                    }
                    unsafe target[written] = UInt8(truncatingIfNeeded: entry)
                    written &+= 1
                    bits &<<= UInt64(truncatingIfNeeded: length)
                    count &-= length
                }
                if isShort, read < source.count { continue }
                if !isShort, let (symbol, length) = long(bits), length <= count {
                    guard symbol < Self.endOfString else { return nil }
                    unsafe target[written] = UInt8(truncatingIfNeeded: symbol)
                    written &+= 1
                    bits &<<= UInt64(truncatingIfNeeded: length)
                    count &-= length
                    continue
                }
                if read < source.count { continue }
                // The rest is padding: fewer than 8 bits, all of them set (RFC 7541 section 5.2).
                guard count < 8, bits == ~(UInt64.max &>> UInt64(truncatingIfNeeded: count)) else { return nil }
                return written
            }
        }
    }

    private func long(_ bits: UInt64) -> (symbol: Int, length: Int)? {
        let top = bits &>> 32
        for length in Self.lookupBits + 1...Self.longest where top < ends[length] {
            return (Int(symbols[Int(top &>> UInt64(32 - length)) &+ offsets[length]]), length)
        }
        return nil
    }

    /// The code lengths of the symbols 0 to 256, in bits.
    static let lengths: [UInt8] = [
        13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28,
        28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7,
        8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19,
        13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13,
        28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21,
        22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23,
        22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
        19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25,
        25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
    ]
}
