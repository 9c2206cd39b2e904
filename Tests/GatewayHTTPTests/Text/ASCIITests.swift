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

/// What is looked up or compared by words of memory, beside the same byte by byte.
@Suite(.timeLimit(.minutes(5)))
struct ByteClassTests {
    private func equals(_ bytes: [UInt8], _ range: Range<Int>, _ word: [UInt8]) -> Bool {
        bytes.span.equalsLowercased(range, word)
    }

    @Test func anAuthorityHasLettersDigitsAndSomeSigns() {
        for byte in UInt8.min...UInt8.max {
            let isExpected = byte.isHostByte || [0x3A, 0x5B, 0x5D].contains(byte)
            #expect(byte.isAuthorityByte == isExpected, "\(byte)")
        }
    }

    @Test func theFirstByteOfAKindIsFoundWhereverItStands() {
        for length in 0...24 {
            for position in 0..<length {
                for byte: UInt8 in [0x3A, 0x39, 0x3B, 0xBA, 0x00] {
                    var bytes = Array(repeating: UInt8(ascii: "a"), count: length) + [0x3A, 0x3A]
                    bytes[position] = byte
                    let found = bytes.span.first(0x3A, in: 0..<length)
                    #expect(found == (byte == 0x3A ? position : length), "\(byte) at \(position) of \(length)")
                }
            }
            let bytes = Array(repeating: UInt8(ascii: ":"), count: length + 1)
            #expect(bytes.span.first(0x3A, in: length..<length) == length)
        }
    }

    @Test func anAuthorityIsJudgedByEachOfItsBytes() {
        for length in 0...18 {
            for position in 0..<length {
                for byte in UInt8.min...UInt8.max {
                    var bytes = Array(repeating: UInt8(ascii: "/"), count: length + 2)
                    for index in 1...length { bytes[index] = [0x61, 0x39, 0x2E, 0x5F][index % 4] }
                    bytes[position + 1] = byte
                    #expect(bytes.span.isAuthority(1..<length + 1) == byte.isAuthorityByte, "\(byte) at \(position)")
                }
            }
        }
        let short: [UInt8] = [0x61, 0x2F]
        #expect(short.span.isAuthority(0..<2) == false)
        #expect(short.span.isAuthority(0..<0) == true)
    }

    @Test func theFirstControlByteIsFoundWhereverItStands() {
        for length in 0...40 {
            let plain = Array(repeating: UInt8(ascii: "a"), count: length)
            #expect(plain.span.firstControlByte(from: 0) == length)
            for position in 0..<length {
                for byte: UInt8 in [0, 0x09, 0x0D, 0x1F, 0x20, 0x7E, 0x7F, 0x80, 0xA0, 0xFF] {
                    var bytes = plain
                    bytes[position] = byte
                    let isControl = byte < 0x20 || byte == 0x7F
                    #expect(bytes.span.firstControlByte(from: 0) == (isControl ? position : length), "\(byte)")
                    #expect(bytes.span.firstControlByte(from: position) == (isControl ? position : length), "\(byte)")
                    #expect(bytes.span.firstControlByte(from: position + 1) == length, "\(byte)")
                }
            }
        }
    }

    /// Names stand in the middle of a head: what follows the range is there to be read, and means nothing.
    @Test func aTokenEndsWithItsRange() {
        for length in 1...40 {
            for behind: [UInt8] in [[], Array("_:".utf8), Array(repeating: 0x61, count: 40)] {
                for byte: UInt8 in [0x61, 0x5F, 0x3A, 0x20, 0x80] {
                    for position in 0..<length {
                        var bytes = Array(repeating: UInt8(ascii: "a"), count: length) + behind
                        bytes[position] = byte
                        var hasUnderscore = false
                        let end = bytes.span.endOfToken(in: 0..<length, hasUnderscore: &hasUnderscore)
                        #expect(end == (byte.isTokenByte ? length : position), "\(byte) at \(position) of \(length)")
                        #expect(hasUnderscore == (byte == 0x5F), "\(byte) at \(position) of \(length)")
                    }
                }
            }
        }
    }

    /// A capital is the same as its small letter; what lies beside the letters, and what has the highest bit, is compared as it is.
    @Test func onlyTheCaseOfLettersIsDisregarded() {
        for length in 1...20 {
            for position in 0..<length {
                for byte in UInt8.min...UInt8.max {
                    var bytes = Array(repeating: UInt8(ascii: "a"), count: length + 2)
                    bytes[position + 1] = byte
                    let lowercased = bytes[1...length].map(\.asciiLowercased)
                    #expect(equals(bytes, 1..<length + 1, lowercased))
                    var other = lowercased
                    other[position] ^= 0x20
                    let isSame = byte.asciiLowercased == other[position]
                    #expect(equals(bytes, 1..<length + 1, other) == isSame, "\(byte) at \(position)")
                }
            }
        }
    }

    @Test(arguments: [("", ""), ("localhost", "LOCALhost"), ("127.0.0.1", "127.0.0.1"), ("keep-alive", "Keep-Alive")])
    func aWordIsFoundInEitherCase(_ word: String, _ written: String) {
        let bytes = Array(written.utf8)
        #expect(equals(bytes, bytes.indices, Array(word.utf8)))
        #expect(!equals(bytes, bytes.indices, Array((word + "x").utf8)))
    }
}
