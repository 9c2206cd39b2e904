import GatewayTesting
import Testing

@testable import GatewayHTTP

@Suite("Field blocks of HTTP/2", .timeLimit(.minutes(5)))
struct FieldBlockDecoderTests {
    private static let start = hexBytes("82 87 84 01 01 61")

    private func fault(_ block: [UInt8]) -> HTTP2Fault? {
        var decoder = FieldBlockDecoder()
        do throws(HTTP2Fault) {
            _ = try decoder.decode(block)
            return nil
        } catch {
            return error
        }
    }

    // MARK: Faults of a block

    @Test(arguments: [
        // An index: 0, behind the static table, behind all that a number can be.
        ("80", HTTP2Fault.invalidIndex), ("be", .invalidIndex), ("ff00", .invalidIndex), ("7f0000", .invalidIndex),
        ("ffffffff7f", .invalidIndex), ("0f3001", .invalidIndex),
        // A number that does not end, or is too large.
        ("ff", .truncatedBlock), ("ff80", .truncatedBlock), ("ff8080808080", .largeInteger),
        ("ffffffffff0f", .largeInteger),
        ("3fffffffffff00", .largeInteger), ("007fffffffff7f", .largeInteger),
        // A string that is longer than the block.
        ("00", .truncatedBlock), ("0001", .truncatedBlock), ("000161", .truncatedBlock), ("00016102", .truncatedBlock),
        ("0001610261", .truncatedBlock),
        ("00ff", .truncatedBlock), ("40", .truncatedBlock), ("10", .truncatedBlock), ("41", .truncatedBlock),
        ("00016185ff", .truncatedBlock),
        // Sizes of the table: too large, behind a field, three of them.
        ("3fe21f", .invalidTableSize), ("8220", .invalidTableSize), ("202020", .invalidTableSize),
        ("3fff7f", .invalidTableSize),
    ])
    func aBrokenBlockEndsTheConnection(_ hex: String, _ expected: HTTP2Fault) {
        #expect(fault(hexBytes(hex)) == expected)
        // Behind a field no size may come at all.
        let isSize = hex.hasPrefix("3f") || hex.hasPrefix("20")
        #expect(fault(Self.start + hexBytes(hex)) == (isSize ? .invalidTableSize : expected))
    }

    @Test(arguments: ["", "82", "20 82", "3fe11f 82", "20 3fe11f 82", "ff8000"])
    func theLimitsAreNoFaults(_ hex: String) {
        #expect(fault(hexBytes(hex)) == (hex == "ff8000" ? .invalidIndex : nil))
    }

    /// Padding is the start of the code of EOS, and shorter than 8 bits; EOS itself is in no string (RFC 7541 section 5.2).
    @Test(arguments: [
        // `a` is 00011, `o` is 00111, `~` has 13 bits.
        ("1f", "a"), ("18ff", "aa"), ("18", nil), ("1e", nil), ("00", nil), ("1fff", nil), ("ff", nil), ("ffff", nil),
        ("", ""),
        ("fffffffc", nil), ("ffffffff", nil), ("1fffffffff", nil), ("fffd", "{"), ("ffef", "~"), ("ffe8", nil),
        ("ffc7", "\0"),
        ("a8eb10649cbf", "no-cache"), ("fffffff3", "\n"), ("fffffff0", nil),
    ])
    func paddingOfHuffmansCode(_ hex: String, _ text: String?) {
        let string = FieldLiteral.string(hexBytes(hex), isHuffman: true)
        var decoder = FieldBlockDecoder()
        do throws(HTTP2Fault) {
            let fields = try decoder.decode([0x00, 0x01, 0x61] + string, .unjudged)
            #expect(
                "\(String(decoding: fields.bytes[..<fields.end], as: UTF8.self))" == text.map { "a: \($0)\r\n\r\n" }
            )
        } catch {
            #expect(error == .invalidHuffman && text == nil)
        }
    }

    /// Every symbol, after every number of bits.
    @Test func everySymbolOfHuffmansCode() throws {
        for symbol in 0...255 {
            for before in 0..<8 {
                let text = [UInt8](repeating: 0x61, count: before) + [UInt8(symbol), 0x61]
                let string = FieldLiteral.string(HuffmanBits.encode(text), isHuffman: true)
                var decoder = FieldBlockDecoder()
                let fields = try decoder.decode([0x00, 0x01, 0x78] + string, .unjudged)
                #expect(Array(fields.bytes[3..<fields.end - 4]) == text)
            }
        }
    }

    @Test func randomTextsOfHuffmansCode() throws {
        var random = SplitMix(seed: 7)
        for _ in 0..<500 {
            let text = (0..<Int.random(in: 0...300, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            let code = HuffmanBits.encode(text)
            var decoder = FieldBlockDecoder()
            let fields = try decoder.decode([0x00, 0x01, 0x78] + FieldLiteral.string(code, isHuffman: true), .unjudged)
            #expect(Array(fields.bytes[3..<fields.end - 4]) == text)
        }
    }

    // MARK: The table

    @Test func theOldestEntriesGo() throws {
        var decoder = FieldBlockDecoder(tableSize: 100)
        for number in 0..<10 {
            _ = try decoder.decode(FieldLiteral.indexed("n", "\(number)"), .unjudged)
        }
        #expect(decoder.remembered.lines == ["n: 9\r\n", "n: 8\r\n"] && decoder.remembered.size == 68)
        _ = try decoder.decode(hexBytes("20"))
        #expect(decoder.remembered.lines == [] && decoder.remembered.size == 0)
        _ = try decoder.decode(FieldLiteral.indexed("n", "a"), .unjudged)
        #expect(decoder.remembered.lines == [])
        _ = try decoder.decode(hexBytes("3f15") + FieldLiteral.indexed("n", "b"), .unjudged)
        #expect(decoder.remembered.lines == ["n: b\r\n"] && decoder.remembered.size == 34)
    }

    @Test func anEntryThatIsTooLargeEmptiesTheTable() throws {
        var decoder = FieldBlockDecoder(tableSize: 100)
        _ = try decoder.decode(FieldLiteral.indexed("n", "1"), .unjudged)
        let value = String(repeating: "v", count: 100)
        let fields = try decoder.decode(FieldLiteral.indexed("n", value), .unjudged)
        #expect(fields.lines == ["n: \(value)"])
        #expect(decoder.remembered.lines == [])
    }

    /// The name of the entry that is inserted comes from the one that has to go for it (RFC 7541 section 4.4).
    @Test func aNameOfAnEntryThatGoes() throws {
        var decoder = FieldBlockDecoder(tableSize: 128)
        let name = String(repeating: "k", count: 40)
        _ = try decoder.decode(FieldLiteral.indexed(name, "1"), .unjudged)
        for number in 0..<100 {
            let value = String(repeating: "\(number % 10)", count: number % 56)
            let fields = try decoder.decode(
                [0x7E] + FieldLiteral.string(Array(value.utf8)),
                .unjudged
            )
            #expect(fields.lines == ["\(name): \(value)"])
            #expect(decoder.remembered.lines.first == "\(name): \(value)\r\n")
        }
    }

    /// A table that is kept as plainly as can be says the same.
    @Test func theTableIsWhatItShouldBe() throws {
        var random = SplitMix(seed: 3)
        for _ in 0..<60 {
            let maximum = [64, 200, 1000, 4096, 8192].randomElement(using: &random) ?? 0
            var (decoder, plain, limit) = (FieldBlockDecoder(tableSize: maximum), [(String, String)](), maximum)
            for _ in 0..<200 {
                var block: [UInt8] = []
                if Int.random(in: 0..<20, using: &random) == 0 {
                    limit = Int.random(in: 0...maximum, using: &random)
                    block += FieldLiteral.integer(limit, prefix: 5, pattern: 0x20)
                    Self.evict(&plain, to: limit)
                }
                let known = plain.indices.randomElement(using: &random)
                let name = known.map { plain[$0].0 } ?? "n\(Int.random(in: 0..<5, using: &random))"
                let length = Int.random(in: 0...(Bool.random(using: &random) ? 20 : maximum), using: &random)
                let value = String(repeating: "v", count: length)
                if let known, Bool.random(using: &random) {
                    block += FieldLiteral.integer(62 + known, prefix: 6, pattern: 0x40)
                    block += FieldLiteral.string(Array(value.utf8))
                } else {
                    block += FieldLiteral.indexed(name, value)
                }
                Self.evict(&plain, to: max(0, limit - name.utf8.count - length - 32))
                if name.utf8.count + length + 32 <= limit { plain.insert((name, value), at: 0) }
                let fields = try decoder.decode(block, .unjudged, maxBytes: 1 << 20)
                #expect(fields.lines == ["\(name): \(value)"])
                #expect(decoder.remembered.lines == plain.map { "\($0.0): \($0.1)\r\n" })
                for (index, entry) in plain.enumerated() where Int.random(in: 0..<8, using: &random) == 0 {
                    let block = FieldLiteral.integer(62 + index, prefix: 7, pattern: 0x80)
                    let again = try decoder.decode(block, .unjudged, maxBytes: 1 << 20)
                    #expect(again.lines == ["\(entry.0): \(entry.1)"])
                }
            }
        }
    }

    private static func evict(_ table: inout [(String, String)], to size: Int) {
        while table.reduce(0, { $0 + $1.0.utf8.count + $1.1.utf8.count + 32 }) > size { table.removeLast() }
    }

    // MARK: Bombs

    /// A few bytes that stand for much are not kept, and the table follows all the same.
    @Test func aListBeyondTheLimitIsDecodedToItsEnd() throws {
        var decoder = FieldBlockDecoder()
        let large = String(repeating: "v", count: 3000)
        let block = Self.start + FieldLiteral.indexed("x", large) + [UInt8](repeating: 0xBE, count: 100)
        let fields = try decoder.decode(block + FieldLiteral.indexed("y", "last"))
        #expect(fields.refusal == .headTooLarge && fields.malformation == nil)
        #expect(fields.end <= 32_768 && fields.listSize > 300_000)
        let next = try decoder.decode(Self.start + hexBytes("be"))
        #expect(next.refusal == nil && next.lines.last == "y: last")
    }

    @Test func aBombEndsTheConnection() throws {
        let large = String(repeating: "v", count: 4000)
        #expect(
            fault(Self.start + FieldLiteral.indexed("x", large) + [UInt8](repeating: 0xBE, count: 4000))
                == .expandingBlock
        )
        // Each takes the long name of the one before it, and is remembered in its place.
        let name = String(repeating: "n", count: 4000)
        let repeated = (0..<4000).flatMap { _ in hexBytes("7e00") }
        #expect(fault(Self.start + FieldLiteral.indexed(name, "") + repeated) == .expandingBlock)
        // A field of nothing counts, too.
        #expect(
            fault(Self.start + FieldLiteral.indexed("cookie", "") + [UInt8](repeating: 0xBE, count: 40_000))
                == .expandingBlock
        )
    }

    @Test func tooManyFields() throws {
        var decoder = FieldBlockDecoder()
        let some = try decoder.decode(Self.start + [UInt8](repeating: 0x90, count: 100), maxFields: 100)
        #expect(some.refusal == nil && some.section.fields.count == 100)
        let many = try decoder.decode(Self.start + [UInt8](repeating: 0x90, count: 101), maxFields: 100)
        #expect(many.refusal == .tooManyFields && many.section.fields.count == 100)
        let cookie = FieldLiteral.field("cookie", "a=b")
        let withCookie = try decoder.decode(Self.start + [UInt8](repeating: 0x90, count: 100) + cookie, maxFields: 100)
        #expect(withCookie.refusal == .tooManyFields)
    }

    @Test func aTargetThatIsTooLong() throws {
        var decoder = FieldBlockDecoder()
        let path = FieldLiteral.field(":path", "/" + String(repeating: "p", count: 1000))
        let fields = try decoder.decode(hexBytes("82 87") + path, maxBytes: 1000)
        #expect(fields.refusal == .targetTooLong)
    }
}

/// Writes Huffman's code bit by bit.
private enum HuffmanBits {
    private static let codes: [(code: UInt32, length: Int)] = {
        // The codes of the standard, from the decoder's own lengths: the examples and stories prove those.
        var (codes, code, last) = ([(UInt32, Int)](repeating: (0, 0), count: 257), UInt32(0), 0)
        for symbol in (0...256).sorted(by: { (HuffmanCode.lengths[$0], $0) < (HuffmanCode.lengths[$1], $1) }) {
            let length = Int(HuffmanCode.lengths[symbol])
            code <<= UInt32(length - last)
            last = length
            codes[symbol] = (code, length)
            code += 1
        }
        return codes
    }()

    static func encode(_ text: [UInt8]) -> [UInt8] {
        var bits: [Bool] = []
        for byte in text {
            let (code, length) = codes[Int(byte)]
            for bit in stride(from: length - 1, through: 0, by: -1) { bits.append(code >> UInt32(bit) & 1 == 1) }
        }
        while !bits.count.isMultiple(of: 8) { bits.append(true) }
        return stride(from: 0, to: bits.count, by: 8).map { start in
            bits[start..<start + 8].reduce(0) { $0 << 1 | ($1 ? 1 : 0) }
        }
    }
}
