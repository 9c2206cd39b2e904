import GatewayHTTP
import Testing

@testable import GatewayApp

@Suite("Times as people type them", .timeLimit(.minutes(1)))
struct TypedTimeTests {
    /// A Thursday, 10:30 in Berlin.
    private static let now = "2026-11-26T09:30:00Z"

    private func period(
        _ since: String?,
        _ until: String? = nil,
        now: String = TypedTimeTests.now,
        offset: @escaping @Sendable (UnixTime) -> Int = { _ in 3600 }
    ) throws -> TypedPeriod {
        try TypedPeriod(since: since, until: until, now: try #require(UnixTime(rfc3339: now)), offset)
    }

    @Test(arguments: [
        ("2026-03-01T09:30:00Z", "2026-03-01T09:30:00.000Z"), ("2026-03-01T09:30:00+02:00", "2026-03-01T07:30:00.000Z"),
        ("2026-03-01 09:30:00Z", "2026-03-01T09:30:00.000Z"),
        ("30m", "2026-11-26T09:00:00.000Z"), ("2h", "2026-11-26T07:30:00.000Z"), ("7d", "2026-11-19T09:30:00.000Z"),
        ("0s", "2026-11-26T09:30:00.000Z"),
        ("today", "2026-11-25T23:00:00.000Z"), ("yesterday", "2026-11-24T23:00:00.000Z"),
        ("today 08:00", "2026-11-26T07:00:00.000Z"), ("yesterday 14:00", "2026-11-25T13:00:00.000Z"),
        ("yesterday 9:05:07", "2026-11-25T08:05:07.000Z"),
        ("2026-11-26", "2026-11-25T23:00:00.000Z"), ("2026-11-26 14:00", "2026-11-26T13:00:00.000Z"),
        ("2026-11-26T14:00", "2026-11-26T13:00:00.000Z"), ("2026-11-26 14:00:30", "2026-11-26T13:00:30.000Z"),
        // The latest that has passed.
        ("10:30", "2026-11-26T09:30:00.000Z"), ("10:31", "2026-11-25T09:31:00.000Z"),
        ("00:00", "2026-11-25T23:00:00.000Z"),
    ])
    func aTimeIsRead(_ text: String, _ moment: String) throws {
        #expect(try period(text).since?.rfc3339 == moment)
        #expect(try period(nil, text).until?.rfc3339 == moment)
    }

    @Test(arguments: [
        ("yesterday 14:00", "15:00", "2026-11-25T14:00:00.000Z"), ("09:00", "10:00", "2026-11-26T09:00:00.000Z"),
        ("yesterday 23:00", "01:00", "2026-11-26T00:00:00.000Z"), ("22:00", "02:00", "2026-11-26T01:00:00.000Z"),
        ("yesterday", "15:00", "2026-11-25T14:00:00.000Z"), ("2026-11-20 14:00", "14:00", "2026-11-21T13:00:00.000Z"),
        ("2h", "10:00", "2026-11-26T09:00:00.000Z"),
        // What names a day, or how long ago, does not depend on the beginning.
        ("yesterday 14:00", "today", "2026-11-25T23:00:00.000Z"), ("7d", "2h", "2026-11-26T07:30:00.000Z"),
    ])
    func aTimeOfDayEndsThePeriodThatBeginsBeforeIt(_ since: String, _ until: String, _ moment: String) throws {
        #expect(try period(since, until).until?.rfc3339 == moment)
    }

    @Test(arguments: [
        "", " ", "tomorrow", "last week", "yesterday ", "yesterday 25:00", "yesterday 14", "14", "1:2", "14:60",
        "24:00",
        "14:00:61", "14:00 ", "2h30", "-2h", "2026-13-01", "2026-02-30", "2026-11-26 ", "2026-11-26 2h", "26-11-26",
        "2026-13-01T00:00:00Z", "yesterday14:00", "14:00:00:00", "١٤:٠٠",
    ])
    func whatIsNoTimeIsAnError(_ text: String) {
        for (since, until) in [(text, nil), (nil, text)] as [(String?, String?)] {
            #expect { try period(since, until) } throws: { error in
                let message = (error as? UnusablePeriod)?.message ?? ""
                return message.contains("cannot read the time") && message.contains("30m, 2h, 7d")
            }
        }
    }

    @Test(arguments: [("2h", "3h"), ("today", "yesterday"), ("2026-11-26T09:30:00Z", "2026-11-26T09:29:59Z")])
    func anEndBeforeTheBeginningIsAnError(_ since: String, _ until: String) {
        #expect { try period(since, until) } throws: { error in
            (error as? UnusablePeriod)?.message.contains("before it begins (2026-11-2") == true
        }
    }

    @Test func theEndMayBeTheBeginning() throws {
        let period = try period("2h", "2h")
        #expect(period.since == period.until)
    }

    /// Berlin puts the clock forward at 01:00 UTC on 2026-03-29, and back on 2026-10-25.
    @Test(arguments: [
        ("2026-03-29T10:00:00Z", "today 01:59", "2026-03-29T00:59:00.000Z"),
        ("2026-03-29T10:00:00Z", "today 03:00", "2026-03-29T01:00:00.000Z"),
        ("2026-03-29T10:00:00Z", "today 02:30", "2026-03-29T01:30:00.000Z"),
        ("2026-03-29T10:00:00Z", "yesterday", "2026-03-27T23:00:00.000Z"),
        ("2026-10-25T10:00:00Z", "today", "2026-10-24T22:00:00.000Z"),
        ("2026-10-25T10:00:00Z", "today 03:00", "2026-10-25T02:00:00.000Z"),
    ])
    func aChangeOfTheClockIsFollowed(_ now: String, _ text: String, _ moment: String) throws {
        let spring = UnixTime(rfc3339: "2026-03-29T01:00:00Z")
        let autumn = UnixTime(rfc3339: "2026-10-25T01:00:00Z")
        let berlin: @Sendable (UnixTime) -> Int = { at in
            guard let spring, let autumn else { return 0 }
            return at >= spring && at < autumn ? 7200 : 3600
        }
        #expect(try period(text, now: now, offset: berlin).since?.rfc3339 == moment)
    }

    @Test func aPlaceWestOfGreenwichHasItsOwnDay() throws {
        let offset: @Sendable (UnixTime) -> Int = { _ in -8 * 3600 }
        let (begun, ended) = (
            try period("today", now: "2026-11-26T03:00:00Z", offset: offset),
            try period(nil, "yesterday 20:00", now: "2026-11-26T03:00:00Z", offset: offset)
        )
        #expect(begun.since?.rfc3339 == "2026-11-25T08:00:00.000Z")
        #expect(ended.until?.rfc3339 == "2026-11-25T04:00:00.000Z")
    }

    /// The log compares texts.
    @Test func aTimeAtTheEndOfTheCalendarKeepsItsYear() throws {
        let west: @Sendable (UnixTime) -> Int = { _ in -8 * 3600 }
        let east: @Sendable (UnixTime) -> Int = { _ in 8 * 3600 }
        #expect(try period("9999-12-31 23:00", offset: west).since?.rfc3339 == "9999-12-31T23:59:59.999Z")
        #expect(try period("9999-12-31T23:00:00-12:00").since?.rfc3339 == "9999-12-31T23:59:59.999Z")
        #expect(try period("0000-01-01", offset: east).since?.rfc3339 == "0000-01-01T00:00:00.000Z")
        #expect(try period(nil, "9999-12-31 23:00", offset: west).until?.rfc3339 == "9999-12-31T23:59:59.999Z")
    }
}
