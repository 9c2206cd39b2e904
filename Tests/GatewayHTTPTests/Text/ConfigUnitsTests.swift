import GatewayHTTP
import Testing

@Suite("Units", .timeLimit(.minutes(5)))
struct ConfigUnitsTests {
    @Test(arguments: [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1 << 20, "1.0 MiB"),
        (5_368_709_120, "5.0 GiB"), (Int.max, "8.0 EiB"), (-1, "-1 B"), (Int.min, "-9223372036854775808 B"),
    ])
    func aSizeIsRoundedForPeople(_ bytes: Int, _ text: String) { #expect(ConfigUnits.rounded(bytes: bytes) == text) }

    @Test(arguments: [
        ("0", 0 as Int?), ("7B", 7), ("64KiB", 65_536), ("2GiB", 2 << 30), ("9999999999999999GiB", .max),
        ("12345678901234567", nil), ("1kb", nil), ("KiB", nil), ("-1", nil),
    ])
    func aSizeIsRead(_ text: String, _ bytes: Int?) { #expect(ConfigUnits.size(text) == bytes) }
}

@Suite("A number with its noun", .timeLimit(.minutes(5)))
struct CountedTests {
    @Test func onlyOneIsSingular() {
        #expect([0, 1, 2].map { $0.counted("route") } == ["0 routes", "1 route", "2 routes"])
    }
}
