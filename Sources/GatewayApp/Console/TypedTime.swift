import GatewayConfiguration
package import GatewayHTTP

/// From when to when, as `--since` and `--until` say it. Days and times of day are local.
package struct TypedPeriod: Hashable, Sendable {
    /// Inclusive; nil for no beginning.
    package let since: UnixTime?
    /// Exclusive; nil for no end.
    package let until: UnixTime?

    /// Reads the texts of a period.
    ///
    /// A time of day without a date is the latest one that has passed. As the end of a period that has a beginning, it is the first one
    /// after the beginning: `--since "yesterday 14:00" --until 15:00` is one hour.
    ///
    /// - Parameter offset: Seconds east of UTC at a moment.
    package init(
        since: String?,
        until: String?,
        now: UnixTime,
        _ offset: @escaping @Sendable (UnixTime) -> Int
    ) throws(UnusablePeriod) {
        let calendar = LocalCalendar(now: now, offset: offset)
        var beginning: UnixTime?
        if let since { beginning = Self.comparable(try TypedTime(since).moment(in: calendar, after: nil)) }
        self.since = beginning
        self.until =
            if let until { Self.comparable(try TypedTime(until).moment(in: calendar, after: beginning)) } else { nil }
        try Self.requireOrder(since: beginning, until: self.until)
    }

    /// Nothing can be found in a period that ends before it begins, and that would be taken for an answer.
    package static func requireOrder(since: UnixTime?, until: UnixTime?) throws(UnusablePeriod) {
        guard let since, let until, until < since else { return }
        throw .endsBeforeItBegins(since: since, until: until)
    }

    /// Times are compared as texts, and a year of five digits, or with a sign, would come before today.
    private static func comparable(_ moment: UnixTime) -> UnixTime {
        let (first, last) = (UnixTime(seconds: -62_167_219_200), UnixTime(milliseconds: 253_402_300_799_999))
        return min(max(moment, first), last)
    }
}

/// A period that cannot be used, in words for the person who typed it.
package enum UnusablePeriod: Error, Hashable {
    case unreadable(String)
    case endsBeforeItBegins(since: UnixTime, until: UnixTime)

    package var message: String {
        switch self {
        case .unreadable(let text): "cannot read the time \"\(LogText.clean(text))\"; \(Self.accepted)"
        case .endsBeforeItBegins(let since, let until):
            "the period ends (\(until.rfc3339)) before it begins (\(since.rfc3339)); choose an earlier beginning or a later end"
        }
    }

    /// What ``TypedPeriod`` reads.
    package static let accepted =
        "write how long ago (30m, 2h, 7d), 14:00, yesterday, \"yesterday 14:00\", \"2026-03-01 14:00\" or 2026-03-01T09:30:00Z"
}

/// One text of a period.
private enum TypedTime {
    case moment(UnixTime)
    case ago(Duration)
    /// Days before today.
    case day(before: Int64, TimeOfDay)
    case date(days: Int64, TimeOfDay)
    case timeOfDay(TimeOfDay)

    init(_ text: String) throws(UnusablePeriod) {
        guard let time = Self.read(text) else { throw .unreadable(text) }
        self = time
    }

    private static func read(_ text: String) -> Self? {
        if let moment = UnixTime(rfc3339: text, isLenient: true) { return .moment(moment) }
        if let duration = ConfigUnits.duration(text) { return .ago(duration) }
        if let time = TimeOfDay(text) { return .timeOfDay(time) }
        let parts = text.split(maxSplits: 1, omittingEmptySubsequences: false) { $0 == " " || $0 == "T" }
        guard let first = parts.first else { return nil }
        var time = TimeOfDay.midnight
        if parts.count == 2 {
            guard let found = TimeOfDay(parts[1]) else { return nil }
            time = found
        }
        switch first {
        case "today": return .day(before: 0, time)
        case "yesterday": return .day(before: 1, time)
        default:
            guard first.utf8.count == 10, let start = UnixTime(rfc3339: "\(first)T00:00:00Z"),
                start.rfc3339.hasPrefix(first)
            else { return nil }
            return .date(days: start.milliseconds / LocalCalendar.day, time)
        }
    }

    func moment(in calendar: LocalCalendar, after beginning: UnixTime?) -> UnixTime {
        switch self {
        case .moment(let moment): moment
        case .ago(let duration): calendar.now + (.zero - duration)
        case .day(let before, let time): calendar.moment(day: calendar.today - before, time)
        case .date(let days, let time): calendar.moment(day: days, time)
        case .timeOfDay(let time):
            if let beginning {
                calendar.first(time, after: beginning)
            } else {
                calendar.latest(time)
            }
        }
    }
}

/// `14:00`, or `14:00:30`.
private struct TimeOfDay {
    static let midnight = TimeOfDay(seconds: 0)

    let seconds: Int64

    private init(seconds: Int64) { self.seconds = seconds }

    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let numbers = parts.compactMap { part -> Int64? in
            let isNumber = (1...2).contains(part.utf8.count) && part.utf8.allSatisfy { (0x30...0x39).contains($0) }
            return isNumber ? Int64(part) : nil
        }
        guard (2...3).contains(parts.count), numbers.count == parts.count,
            parts.dropFirst().allSatisfy({ $0.count == 2 }),
            numbers[0] < 24, numbers[1] < 60, numbers.count == 2 || numbers[2] < 60
        else { return nil }
        seconds = numbers[0] * 3600 + numbers[1] * 60 + (numbers.count == 3 ? numbers[2] : 0)
    }
}

/// The days around a moment, at a place.
private struct LocalCalendar {
    /// Milliseconds.
    static let day: Int64 = 86_400_000

    let now: UnixTime
    let offset: @Sendable (UnixTime) -> Int

    /// Days since 1970-01-01, in local time.
    var today: Int64 { number(of: now) }

    private func number(of moment: UnixTime) -> Int64 {
        let local = (moment + .seconds(offset(moment))).milliseconds
        return local >= 0 ? local / Self.day : (local - Self.day + 1) / Self.day
    }

    /// A time that a change of the clock skips is taken as far behind the change.
    func moment(day: Int64, _ time: TimeOfDay) -> UnixTime {
        let local = UnixTime(milliseconds: day * Self.day + time.seconds * 1000)
        // The first guess is off by the offset, which may change in between.
        let guess = local + .seconds(-offset(local))
        return local + .seconds(-offset(guess))
    }

    func latest(_ time: TimeOfDay) -> UnixTime {
        let here = moment(day: today, time)
        return here <= now ? here : moment(day: today - 1, time)
    }

    func first(_ time: TimeOfDay, after beginning: UnixTime) -> UnixTime {
        let day = number(of: beginning)
        let here = moment(day: day, time)
        return here > beginning ? here : moment(day: day + 1, time)
    }
}
