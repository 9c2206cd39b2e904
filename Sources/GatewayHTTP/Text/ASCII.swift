extension UInt8 {
    /// A byte of a token (RFC 9110 §5.6.2): looked up in a 128-bit set, no table in memory.
    @inline(__always)
    package var isTokenByte: Bool {
        let low: UInt64 = 0x03FF_6CFA_0000_0000
        let high: UInt64 = 0x57FF_FFFF_C7FF_FFFE
        guard self < 128 else { return false }
        return (self < 64 ? low : high) >> UInt64(self & 63) & 1 == 1
    }

    @inlinable @inline(__always)
    package var asciiLowercased: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }

    /// In lower case, with `_` as `-`: programs that turn fields into variables, as CGI does, do not distinguish them.
    @inlinable @inline(__always)
    package var asciiDashed: UInt8 { self == 0x5F ? 0x2D : asciiLowercased }

    @inlinable @inline(__always)
    package var isDigit: Bool { self &- 0x30 < 10 }

    /// A space or a horizontal tab (RFC 9110 §5.6.3).
    @inlinable @inline(__always)
    package var isOptionalWhitespace: Bool { self == 0x20 || self == 0x09 }

    /// The value of a hexadecimal digit.
    @inline(__always)
    package var hexValue: UInt8? {
        if isDigit { return self &- 0x30 }
        let letter = self | 0x20
        return letter &- 0x61 < 6 ? letter &- 0x61 &+ 10 : nil
    }

    package var isHexDigit: Bool { hexValue != nil }

    /// A byte of a registered name as hosts are written: letters, digits, `-`, `.` and `_`.
    package var isHostByte: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
        default: false
        }
    }

    /// A byte of `host[:port]`: a registered name, an IPv4 address or an IPv6 address in brackets.
    ///
    /// Looked up as in ``isTokenByte``.
    @inline(__always)
    var isAuthorityByte: Bool {
        let low: UInt64 = 0x07FF_6000_0000_0000
        let high: UInt64 = 0x07FF_FFFE_AFFF_FFFE
        guard self < 128 else { return false }
        return (self < 64 ? low : high) >> UInt64(self & 63) & 1 == 1
    }
}

extension Span<UInt8> {
    /// The index of the first control byte (below 0x20, or 0x7F) at or after `start`, or `count`.
    ///
    /// Sixteen bytes at a time, then eight. The subtraction's borrow may mark a byte above the first hit, never one below it.
    @inline(__always)
    func firstControlByte(from start: Int) -> Int {
        var index = Swift.max(0, start)
        while index &+ 16 <= count {
            // Bounds: the loop condition, and it begins at 0 or above.
            let block = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: SIMD16<UInt8>.self)
            if let first = block.firstControlByte { return index &+ first }
            index &+= 16
        }
        if index &+ 8 <= count {
            // Bounds: the condition above.
            let word = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
            let below = (word &- 0x2020_2020_2020_2020) & ~word
            let delete = word ^ 0x7F7F_7F7F_7F7F_7F7F
            let isDelete = (delete &- 0x0101_0101_0101_0101) & ~delete
            let hits = (below | isDelete) & 0x8080_8080_8080_8080
            if hits != 0 { return index &+ (UInt64(littleEndian: hits).trailingZeroBitCount >> 3) }
            index &+= 8
        }
        while index < count {
            let byte = self[index]
            if byte < 0x20 || byte == 0x7F { return index }
            index &+= 1
        }
        return count
    }

    /// The index of the first byte in `range` that no token has, or its end.
    ///
    /// Names are mostly letters, digits and hyphens: those are passed over sixteen at a time, or eight where the bytes end. A block may
    /// go beyond the range, since what is found there is not returned.
    ///
    /// - Parameter hasUnderscore: Set when one was passed over.
    @inline(__always)
    func endOfToken(in range: Range<Int>, hasUnderscore: inout Bool) -> Int {
        var index = Swift.max(0, range.lowerBound)
        while index < range.upperBound {
            if index &+ 16 <= count {
                // Bounds: the condition above, and it begins at 0 or above.
                let block = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: SIMD16<UInt8>.self)
                guard let first = block.firstOtherThanWordByte else {
                    index &+= 16
                    continue
                }
                index &+= first
                guard index < range.upperBound else { break }
            } else if index &+ 8 <= range.upperBound, index &+ 8 <= count {
                // Bounds: the condition above, and it begins at 0 or above.
                let word = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
                let others = word.bytesThatAreNoWordBytes
                if others == 0 {
                    index &+= 8
                    continue
                }
                index &+= UInt64(littleEndian: others).trailingZeroBitCount >> 3
            }
            let byte = self[index]
            guard byte.isTokenByte else { return index }
            if byte == 0x5F { hasUnderscore = true }
            index &+= 1
        }
        return Swift.min(index, Swift.max(range.lowerBound, range.upperBound))
    }

    /// The index of the first such byte in `range`, or its end. Eight bytes at a time; the subtraction's borrow may mark a byte above
    /// the first hit, never one below it.
    @inline(__always)
    func first(_ byte: UInt8, in range: Range<Int>) -> Int {
        var index = range.lowerBound
        let pattern = UInt64(byte) &* 0x0101_0101_0101_0101
        while index >= 0, index &+ 8 <= range.upperBound, index &+ 8 <= count {
            // Bounds: the loop condition.
            let word = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self) ^ pattern
            let hits = (word &- 0x0101_0101_0101_0101) & ~word & 0x8080_8080_8080_8080
            if hits != 0 { return index &+ (UInt64(littleEndian: hits).trailingZeroBitCount >> 3) }
            index &+= 8
        }
        while index < range.upperBound, self[index] != byte { index &+= 1 }
        return index
    }

    /// Whether `range` has only bytes of `host[:port]`.
    ///
    /// Most have only letters, digits, dots, hyphens and a colon: those are passed over eight at a time, the last of them with some
    /// of those before.
    @inline(__always)
    func isAuthority(_ range: Range<Int>) -> Bool {
        var index = range.lowerBound
        if index >= 0, range.upperBound <= count, range.count >= 8 {
            while index < range.upperBound {
                let start = Swift.min(index, range.upperBound &- 8)
                // Bounds: the conditions above.
                let word = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: start, as: UInt64.self)
                guard word.bytesThatAreNoHostBytes == 0 else { break }
                index = start &+ 8
            }
        }
        while index < range.upperBound {
            guard self[index].isAuthorityByte else { return false }
            index &+= 1
        }
        return true
    }

    /// Whether `range` reads exactly `word`.
    @inline(__always)
    func equals(_ range: Range<Int>, _ word: StaticString) -> Bool {
        guard range.count == word.utf8CodeUnitCount else { return false }
        return word.withUTF8Buffer { expected in
            for offset in 0..<expected.count where unsafe self[range.lowerBound &+ offset] != expected[offset] {
                return false
            }
            return true
        }
    }

    /// Whether `range` reads `word` without regard to case; `word` is lower case.
    @inline(__always)
    package func equalsLowercased(_ range: Range<Int>, _ word: StaticString) -> Bool {
        guard range.count == word.utf8CodeUnitCount else { return false }
        return unsafe readsLowercased(range, UnsafeRawPointer(word.utf8Start))
    }

    /// Whether `range` reads as many bytes from `word` on, which are lower case, without regard to case. Eight bytes at a time: most of
    /// what is compared has several.
    @inline(__always)
    private func readsLowercased(_ range: Range<Int>, _ word: UnsafeRawPointer) -> Bool {
        guard range.lowerBound >= 0, range.upperBound <= count else { return false }
        let (from, length) = (range.lowerBound, range.upperBound &- range.lowerBound)
        var offset = 0
        while offset &+ 8 <= length {
            // Bounds: the loop condition, the check above, and `word` has as many.
            let ours = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: from &+ offset, as: UInt64.self)
            let theirs = unsafe word.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            guard ours.asciiLowercased == theirs else { return false }
            offset &+= 8
        }
        while offset < length {
            let ours = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: from &+ offset, as: UInt8.self)
            guard unsafe ours.asciiLowercased == word.load(fromByteOffset: offset, as: UInt8.self) else { return false }
            offset &+= 1
        }
        return true
    }

    /// Whether the token in `name` reads `word` without regard to case; `word` has lower-case letters and hyphens only.
    ///
    /// Compares words of memory, the last of which may overlap the one before it. Setting the bit that makes letters small
    /// makes no other byte of a token a letter or a hyphen.
    @inline(__always)
    package func isToken(_ name: Range<Int>, _ word: StaticString) -> Bool {
        let length = word.utf8CodeUnitCount
        guard name.count == length, name.lowerBound >= 0, name.upperBound <= count else { return false }
        guard length >= 4 else { return equalsLowercased(name, word) }
        let from = name.lowerBound
        if length < 8 {
            return reads(word, 0, at: from, UInt32.self) && reads(word, length &- 4, at: from, UInt32.self)
        }
        var offset = 0
        while offset &+ 8 < length {
            guard reads(word, offset, at: from, UInt64.self) else { return false }
            offset &+= 8
        }
        return reads(word, length &- 8, at: from, UInt64.self)
    }

    /// Whether the bytes from `start + offset` on read `word` from `offset` on; both must have as many.
    @inline(__always)
    private func reads<Word: FixedWidthInteger & BitwiseCopyable>(
        _ word: StaticString,
        _ offset: Int,
        at start: Int,
        _: Word.Type
    ) -> Bool {
        let small = Word(truncatingIfNeeded: 0x2020_2020_2020_2020 as UInt64)
        // Bounds: those of the caller.
        let ours = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: start &+ offset, as: Word.self) | small
        return unsafe ours == UnsafeRawPointer(word.utf8Start).loadUnaligned(fromByteOffset: offset, as: Word.self)
    }

    /// Like ``equalsLowercased(_:_:)-(_,StaticString)``, with `_` read as `-`.
    func equalsDashed(_ range: Range<Int>, _ word: StaticString) -> Bool {
        guard range.count == word.utf8CodeUnitCount else { return false }
        return word.withUTF8Buffer { expected in
            for offset in 0..<expected.count {
                if unsafe self[range.lowerBound &+ offset].asciiDashed != expected[offset] { return false }
            }
            return true
        }
    }

    package func equalsDashed(_ range: Range<Int>, _ bytes: [UInt8]) -> Bool {
        guard range.count == bytes.count else { return false }
        for offset in bytes.indices where self[range.lowerBound &+ offset].asciiDashed != bytes[offset] { return false }
        return true
    }

    /// Whether `range` reads exactly `expected`.
    func equals(_ range: Range<Int>, _ expected: [UInt8]) -> Bool {
        guard range.count == expected.count else { return false }
        for offset in expected.indices where self[range.lowerBound &+ offset] != expected[offset] { return false }
        return true
    }

    /// Whether `range` reads `bytes` without regard to case; `bytes` are lower case.
    package func equalsLowercased(_ range: Range<Int>, _ bytes: [UInt8]) -> Bool {
        guard range.count == bytes.count else { return false }
        return unsafe bytes.withUnsafeBytes { expected in
            guard let first = expected.baseAddress else { return true }
            return unsafe readsLowercased(range, first)
        }
    }

    /// Whether both are the same to the byte. How long that takes tells nothing about how near they are.
    package func isSame(as other: borrowing Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        var difference: UInt64 = 0
        var index = 0
        while index &+ 8 <= count {
            // Bounds: the loop condition, and both have as many.
            let ours = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
            let theirs = unsafe other.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
            difference |= ours ^ theirs
            index &+= 8
        }
        while index < count {
            difference |= UInt64(self[index] ^ other[index])
            index &+= 1
        }
        return difference == 0
    }

    /// Whether `word`, in lower case, stands anywhere in `range`.
    package func containsLowercased(_ range: Range<Int>, _ word: StaticString) -> Bool {
        let length = word.utf8CodeUnitCount
        guard range.count >= length else { return false }
        for start in range.lowerBound...range.upperBound - length
        where equalsLowercased(start..<start + length, word) {
            return true
        }
        return false
    }

    package func array(_ range: Range<Int>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(range.count)
        for index in range { bytes.append(self[index]) }
        return bytes
    }

    package func string(_ range: Range<Int>) -> String {
        unsafe String(unsafeUninitializedCapacity: range.count) { buffer in
            for offset in 0..<range.count { unsafe buffer[offset] = self[range.lowerBound &+ offset] }
            return range.count
        }
    }

    /// `range` without optional whitespace at either end.
    @inline(__always)
    package func trimmed(_ range: Range<Int>) -> Range<Int> {
        var (low, high) = (range.lowerBound, range.upperBound)
        while low < high, self[low].isOptionalWhitespace { low &+= 1 }
        while low < high, self[high &- 1].isOptionalWhitespace { high &-= 1 }
        return low..<high
    }
}

// Vectors with vectors, never with one byte: the standard library turns that into a loop over the bytes.
extension SIMD16<UInt8> {
    /// The index of the first control byte (below 0x20, or 0x7F).
    @inline(__always)
    var firstControlByte: Int? {
        Self.firstIndex((self .< Self(repeating: 0x20)) .| (self .== Self(repeating: 0x7F)))
    }

    /// The index of the first byte that is no letter, digit or hyphen.
    @inline(__always)
    var firstOtherThanWordByte: Int? {
        let lowercased = self | Self(repeating: 0x20)
        let letters = (lowercased &- Self(repeating: 0x61)) .< Self(repeating: 26)
        let digits = (self &- Self(repeating: 0x30)) .< Self(repeating: 10)
        let hyphens = self .== Self(repeating: 0x2D)
        return Self.firstIndex(.!(letters .| digits .| hyphens))
    }

    @inline(__always)
    private static func firstIndex(_ hits: SIMDMask<SIMD16<Int8>>) -> Int? {
        // Both have sixteen bytes, and a mask is all ones or all zeros in each.
        let halves = unsafe unsafeBitCast(hits, to: SIMD2<UInt64>.self)
        guard halves[0] | halves[1] != 0 else { return nil }
        return halves[0] != 0
            ? UInt64(littleEndian: halves[0]).trailingZeroBitCount >> 3
            : 8 &+ UInt64(littleEndian: halves[1]).trailingZeroBitCount >> 3
    }
}

extension UInt64 {
    /// Each of the eight bytes as ``UInt8/asciiLowercased`` has it.
    @inline(__always)
    var asciiLowercased: UInt64 {
        // Without its highest bit no byte carries into the next.
        let low = self & 0x7F7F_7F7F_7F7F_7F7F
        let capitals = (low &+ 0x3F3F_3F3F_3F3F_3F3F) & ~(low &+ 0x2525_2525_2525_2525) & ~self
        return self | (capitals & 0x8080_8080_8080_8080) &>> 2
    }

    /// The highest bit of each byte that is no letter, digit or hyphen.
    @inline(__always)
    var bytesThatAreNoWordBytes: UInt64 {
        let high: UInt64 = 0x8080_8080_8080_8080
        // Without its highest bit no byte carries into the next.
        let low = self & ~high
        let lowercased = low | 0x2020_2020_2020_2020
        let letters = (lowercased &+ 0x1F1F_1F1F_1F1F_1F1F) & ~(lowercased &+ 0x0505_0505_0505_0505)
        let digits = (low &+ 0x5050_5050_5050_5050) & ~(low &+ 0x4646_4646_4646_4646)
        let hyphens = ~((low ^ 0x2D2D_2D2D_2D2D_2D2D) &+ 0x7F7F_7F7F_7F7F_7F7F)
        return (~(letters | digits | hyphens) | self) & high
    }

    /// The highest bit of each byte that is no letter, digit, dot, hyphen or colon.
    @inline(__always)
    var bytesThatAreNoHostBytes: UInt64 {
        let high: UInt64 = 0x8080_8080_8080_8080
        // Without its highest bit no byte carries into the next.
        let low = self & ~high
        let lowercased = low | 0x2020_2020_2020_2020
        let letters = (lowercased &+ 0x1F1F_1F1F_1F1F_1F1F) & ~(lowercased &+ 0x0505_0505_0505_0505)
        // From the hyphen to the colon, but for the slash.
        let others = (low &+ 0x5353_5353_5353_5353) & ~(low &+ 0x4545_4545_4545_4545)
        let slashes = ~((low ^ 0x2F2F_2F2F_2F2F_2F2F) &+ 0x7F7F_7F7F_7F7F_7F7F)
        return (~(letters | others & ~slashes) | self) & high
    }
}

extension String {
    /// Fit for one line of a log or a table: control characters and line separators become `\u{..}`.
    ///
    /// - Parameter limit: In bytes; the rest is cut and marked.
    package func singleLine(limit: Int) -> String {
        var result = ""
        for scalar in unicodeScalars {
            guard result.utf8.count < limit else { return result + "…" }
            if scalar.isHarmless {
                result.unicodeScalars.append(scalar)
            } else {
                result += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }
}
