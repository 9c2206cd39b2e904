import Testing

@testable import GatewayProxy

@Suite("Records of a TLS hello", .timeLimit(.minutes(1)))
struct TLSHelloRecordsTests {
    private static func record(_ content: [UInt8], type: UInt8 = 22) -> [UInt8] {
        [type, 3, 1, UInt8(content.count >> 8), UInt8(content.count & 0xFF)] + content
    }

    private static func message(_ size: Int) -> [UInt8] {
        [1, UInt8(size >> 16), UInt8(size >> 8 & 0xFF), UInt8(size & 0xFF)] + (0..<size).map { UInt8($0 % 251) }
    }

    private static func records(_ content: [UInt8], of size: Int) -> [UInt8] {
        stride(from: 0, to: content.count, by: size)
            .flatMap { record(Array(content[$0..<min($0 + size, content.count)])) }
    }

    private static func join(_ bytes: [UInt8]) -> TLSHelloRecords.Step {
        var records = TLSHelloRecords()
        return records.join(bytes.span)
    }

    @Test(arguments: [1, 2, 3, 4, 5, 100, 299, 303])
    func severalBecomeOne(_ size: Int) {
        let hello = Self.message(300)
        let bytes = Self.records(hello, of: size) + [1, 2, 3]
        #expect(Self.join(bytes) == .joined(Self.record(hello) + [1, 2, 3]))
        for count in 0..<bytes.count - 3 {
            #expect(Self.join(Array(bytes.prefix(count))) == .unfinished)
        }
    }

    /// Whatever has come before, the outcome is that of all of it.
    @Test(arguments: [1, 3, 100, 299])
    func itGoesOnWhereItWas(_ size: Int) {
        let hello = Self.message(300)
        let bytes = Self.records(hello, of: size)
        var records = TLSHelloRecords()
        for count in 0..<bytes.count { #expect(records.join(Array(bytes.prefix(count)).span) == .unfinished) }
        #expect(records.join(bytes.span) == .joined(Self.record(hello)))
    }

    @Test(arguments: [
        record(message(300)), record(message(300)) + [22, 3], record([1, 2, 3], type: 21), Array("GET / HTTP".utf8),
        [0x47], record([]), [22, 2, 0, 0, 5], record(Array(message(300).prefix(10))) + record([1], type: 23),
    ])
    func othersStay(_ bytes: [UInt8]) { #expect(Self.join(bytes) == .unchanged) }

    /// What waits has a bound, whatever the records are.
    @Test(arguments: [1, 7, 1000, 16_384])
    func aHelloWithoutEndStays(_ size: Int) {
        let bytes = Self.records(Self.message(60_000), of: size)
        var count = 0
        while count < bytes.count, Self.join(Array(bytes.prefix(count))) == .unfinished { count += 509 }
        #expect(count <= TLSHelloRecords.maximum + 509)
        #expect(Self.join(Array(bytes.prefix(count))) == .unchanged)
    }
}
