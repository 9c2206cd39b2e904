import GatewayHTTP
import Testing

@Suite(.timeLimit(.minutes(5)))
struct UnixTimeTests {
    @Test(arguments: [
        ("2026-11-27T10:00:00.000+0000", 1_795_773_600), ("2026-11-27 10:00:00Z", 1_795_773_600),
        ("2026-11-27T12:00:00+02", 1_795_773_600), ("2026-11-27 10:00:00 UTC", 1_795_773_600),
        ("2026-11-27 12:00:00 +0200", 1_795_773_600), ("2026-11-27T10:00:00Z", 1_795_773_600),
    ])
    func aTimeWithAZoneIsReadHoweverItIsWritten(_ text: String, _ seconds: Int64) {
        #expect(UnixTime(rfc3339: text, isLenient: true) == UnixTime(seconds: seconds))
    }

    @Test(arguments: [
        "2026-11-27T10:00:00", "2026-11-27 10:00:00", "2026-11-27", "2026-11-27T10:00:00+2", "2026-11-27T10:00:00 CET",
    ])
    func aTimeWithoutAZoneIsNone(_ text: String) {
        #expect(UnixTime(rfc3339: text, isLenient: true) == nil)
    }

    @Test(arguments: ["2026-11-27T10:00:00+0000", "2026-11-27 10:00:00Z", "2026-11-27T10:00:00+00"])
    func aConfigurationIsReadStrictly(_ text: String) {
        #expect(UnixTime(rfc3339: text) == nil)
    }

    @Test(arguments: [("0", 0), ("1.5", 1500), ("1795773600", 1_795_773_600_000), ("1e9", 1_000_000_000_000)])
    func aNumericDateCountsSeconds(_ text: String, _ milliseconds: Int64) {
        #expect(UnixTime(numericDate: JSONValue(Array(text.utf8))) == UnixTime(milliseconds: milliseconds))
    }

    @Test(arguments: ["-1", "1e11", "1795773600000", "\"1795773600\"", "null", "[]"])
    func anythingElseIsNoNumericDate(_ text: String) {
        #expect(UnixTime(numericDate: JSONValue(Array(text.utf8))) == nil)
    }

    /// RFC 6265 section 5.1.1, and dates that servers have been seen to write.
    @Test(arguments: [
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Thu, 01-Jan-1970 00:00:10 GMT", 10), ("Thu, 1-Jan-70 00:00:00", 0),
        ("Fri Nov 27 10:00:00 2026", 1_795_773_600), ("Fri, 27-Nov-26 10:0:0 GMT", 1_795_773_600),
        ("27 november 2026 10:00:00x", 1_795_773_600), ("01 Jan 1601 00:00:00", -11_644_473_600),
    ])
    func theDateOfACookieIsReadAsUserAgentsReadIt(_ text: String, _ seconds: Int64) {
        #expect(UnixTime(cookieDate: text) == UnixTime(seconds: seconds))
    }

    @Test(arguments: [
        "", "0", "tomorrow", "27 Nov 2026", "27 Nov 2026 25:00:00", "32 Nov 2026 10:00:00", "27 Nov 1600 10:00:00",
        "27 Foo 2026 10:00:00", "27 Nov 10:00:00", "27 Nov 2026 10:00",
    ])
    func whatHasNotAllPartsIsNoDate(_ text: String) {
        #expect(UnixTime(cookieDate: text) == nil)
    }

    @Test(arguments: [
        (Int64(0), "1970-01-01T00:00:00.000Z"), (1_772_357_400_250, "2026-03-01T09:30:00.250Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"), (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ])
    func theTextAndTheNumberAreTheSameInstant(_ milliseconds: Int64, _ text: String) {
        #expect(UnixTime(milliseconds: milliseconds).rfc3339 == text)
        #expect(UnixTime(rfc3339: text)?.milliseconds == milliseconds)
    }

    @Test(arguments: [
        (Int64(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (1_795_305_599, "Sat, 21 Nov 2026 23:59:59 GMT"),
        (-86_401, "Tue, 30 Dec 1969 23:59:59 GMT"),
    ])
    func datesOfHTTPAreTheSameInstant(_ seconds: Int64, _ text: String) {
        #expect(UnixTime(seconds: seconds).httpDate == text)
        #expect(UnixTime(httpDate: text) == UnixTime(seconds: seconds))
    }

    @Test func offsetsAreRead() {
        #expect(UnixTime(rfc3339: "2026-03-01T10:30:00+01:00") == UnixTime(rfc3339: "2026-03-01T09:30:00Z"))
    }

    @Test(arguments: ["", "2026-03-01", "2026-13-01T00:00:00Z", "2026-03-01T00:00:00", "2026-03-01T00:00:00Zx", "x"])
    func anythingElseIsNot(_ text: String) { #expect(UnixTime(rfc3339: text) == nil) }

    @Test func arithmeticNeverTraps() {
        #expect((UnixTime(milliseconds: .max) + .seconds(1)).milliseconds == .max)
        #expect((MonotonicTime(nanoseconds: .min) - .seconds(1)).nanoseconds == .min)
        #expect(Duration.seconds(Int64.max).wholeNanoseconds == .max)
        #expect(Duration.milliseconds(1001).secondsRoundedUp == 2)
    }
}
