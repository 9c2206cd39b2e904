import GatewayCore
import Testing

@Suite(.timeLimit(.minutes(5)))
struct UnixTimeTests {
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
