/// A point in civil time, in milliseconds since 1970-01-01T00:00:00Z.
package struct UnixTime: Hashable, Comparable, Sendable {
    package var milliseconds: Int64

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    package init(seconds: Int64) {
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        milliseconds = overflow ? (seconds < 0 ? .min : .max) : scaled
    }

    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.milliseconds < rhs.milliseconds }

    package static func + (time: Self, duration: Duration) -> Self {
        let (sum, overflow) = time.milliseconds.addingReportingOverflow(duration.wholeMilliseconds)
        return Self(milliseconds: overflow ? (duration < .zero ? .min : .max) : sum)
    }

    package static func - (lhs: Self, rhs: Self) -> Duration {
        let (difference, overflow) = lhs.milliseconds.subtractingReportingOverflow(rhs.milliseconds)
        return .milliseconds(overflow ? (lhs > rhs ? Int64.max : .min) : difference)
    }

    /// RFC 3339 in UTC with milliseconds, for example `2026-03-01T09:30:00.250Z`.
    package var rfc3339: String {
        let civil = CivilTime(self)
        let date = "\(civil.digits(\.year, 4))-\(civil.digits(\.month))-\(civil.digits(\.day))"
        return "\(date)T\(civil.timeOfDay).\(civil.digits(\.millisecond, 3))Z"
    }

    /// Reads RFC 3339 (`2026-03-01T09:30:00Z`, with a fraction or an offset); nil when it is anything else.
    ///
    /// - Parameter isLenient: Whether a space may stand in place of the `T`, and a zone may be written `+0000`, `+00`, `UTC` or
    ///   `GMT`, behind a space too. A time without a zone is never read: it may be local time.
    package init?(rfc3339 text: String, isLenient: Bool = false) {
        var rest = Substring(text)
        func number(_ width: Int, then separator: Character? = nil) -> Int64? {
            let part = rest.prefix(width)
            guard part.count == width, part.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            rest = rest.dropFirst(width)
            if let separator {
                guard rest.first?.uppercased() == String(separator) else { return nil }
                rest = rest.dropFirst()
            }
            return Int64(part)
        }
        guard let year = number(4, then: "-"), let month = number(2, then: "-"), let day = number(2),
            let mark = rest.popFirst(), mark == "T" || mark == "t" || isLenient && mark == " ",
            let hour = number(2, then: ":"), let minute = number(2, then: ":"), let second = number(2),
            (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second <= 60
        else { return nil }
        var fraction: Int64 = 0
        if rest.first == "." {
            let digits = rest.dropFirst().prefix { $0.isASCII && $0.isNumber }
            guard !digits.isEmpty, let value = Int64((digits + "000").prefix(3)) else { return nil }
            fraction = value
            rest = rest.dropFirst(1 + digits.count)
        }
        if isLenient {
            if rest.first == " " { rest = rest.dropFirst() }
            if rest == "UTC" || rest == "GMT" { rest = "Z" }
        }
        var offset: Int64 = 0
        switch rest.first {
        case "Z", "z":
            rest = rest.dropFirst()
        case "+", "-":
            let sign: Int64 = rest.first == "-" ? -1 : 1
            rest = rest.dropFirst()
            guard let hours = number(2) else { return nil }
            if rest.first == ":" { rest = rest.dropFirst() } else if !isLenient { return nil }
            let minutes = isLenient && rest.isEmpty ? 0 : number(2)
            guard let minutes, hours < 24, minutes < 60 else { return nil }
            offset = sign * (hours * 60 + minutes)
        default:
            return nil
        }
        guard rest.isEmpty else { return nil }
        let days = CivilTime.days(year: year, month: month, day: day)
        milliseconds = (((days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1000 + fraction
    }
}

/// The proleptic Gregorian calendar in UTC (Howard Hinnant, "chrono-compatible low-level date algorithms").
private struct CivilTime {
    let year, month, day, hour, minute, second, millisecond: Int64
    /// 0 is Sunday.
    let weekday: Int

    init(_ time: UnixTime) {
        let (days, rest) = CivilTime.floorDivide(time.milliseconds, 86_400_000)
        // 1970-01-01 was a Thursday.
        weekday = Int(CivilTime.floorDivide(days + 4, 7).remainder)
        let shifted = days + 719_468
        let era = CivilTime.floorDivide(shifted, 146_097).quotient
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        hour = rest / 3_600_000
        minute = rest / 60_000 % 60
        second = rest / 1000 % 60
        millisecond = rest % 1000
    }

    static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = floorDivide(shiftedYear, 400).quotient
        let yearOfEra = shiftedYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    private static func floorDivide(_ value: Int64, _ divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }

    /// `09:30:00`
    var timeOfDay: String { "\(digits(\.hour)):\(digits(\.minute)):\(digits(\.second))" }

    func digits(_ part: KeyPath<Self, Int64>, _ width: Int = 2) -> String {
        let text = String(self[keyPath: part])
        return String(repeating: "0", count: max(0, width - text.count)) + text
    }
}

/// Dates in HTTP, cookies and JSON Web Tokens.
extension UnixTime {
    /// Reads an IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7); nil for the obsolete forms.
    package init?(httpDate text: String) {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 6, parts[0].hasSuffix(","), parts[5] == "GMT", parts[4].utf8.count == 8,
            let month = httpMonths.firstIndex(of: String(parts[2]))
        else { return nil }
        let number = month < 9 ? "0\(month + 1)" : "\(month + 1)"
        self.init(rfc3339: "\(parts[3])-\(number)-\(parts[1])T\(parts[4])Z")
    }

    /// Reads a date as user agents read that of a cookie (RFC 6265 section 5.1.1): its parts in any order, with anything between
    /// them that is no digit and no letter.
    package init?(cookieDate text: String) {
        var (time, day, month, year): ([Int64]?, Int64?, Int?, Int64?)
        let words = text.utf8.split { !((0x30...0x3A).contains($0) || (0x61...0x7A).contains($0 | 0x20) || $0 >= 0x7F) }
        for word in words {
            let digits = word.prefix { (0x30...0x39).contains($0) }
            let number = digits.count <= 4 ? Int64(String(decoding: digits, as: UTF8.self)) : nil
            if time == nil, let found = Self.timeOfDay(word) {
                time = found
            } else if day == nil, let number, digits.count <= 2 {
                day = number
            } else if month == nil, let found = httpMonths.firstIndex(of: Self.monthName(word)) {
                month = found + 1
            } else if year == nil, let number, digits.count >= 2 {
                year = number < 70 ? number + 2000 : number < 100 ? number + 1900 : number
            }
        }
        guard let time, let day, let month, let year, (1...31).contains(day), year >= 1601, time[0] < 24, time[1] < 60,
            time[2] < 60
        else { return nil }
        let days = CivilTime.days(year: year, month: Int64(month), day: day)
        self.init(seconds: ((days * 24 + time[0]) * 60 + time[1]) * 60 + time[2])
    }

    private static func monthName(_ word: some Collection<UInt8>) -> String {
        let letters = String(decoding: word.prefix(3), as: UTF8.self).lowercased()
        return letters.prefix(1).uppercased() + letters.dropFirst()
    }

    /// Hours, minutes and seconds of one or two digits each; nil when it is no time of the day.
    private static func timeOfDay(_ word: some Collection<UInt8>) -> [Int64]? {
        let parts = word.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3 else { return nil }
        let digits = parts.map { part in part.prefix { (0x30...0x39).contains($0) } }
        guard digits.allSatisfy({ (1...2).contains($0.count) }), digits[0].count == parts[0].count,
            digits[1].count == parts[1].count
        else { return nil }
        return digits.compactMap { Int64(String(decoding: $0, as: UTF8.self)) }
    }

    /// An IMF-fixdate, as it is written into `Date`.
    package var httpDate: String {
        let civil = CivilTime(self)
        let date = "\(civil.digits(\.day)) \(httpMonths[Int(civil.month) - 1]) \(civil.digits(\.year, 4))"
        return "\(httpDays[civil.weekday]), \(date) \(civil.timeOfDay) GMT"
    }

    /// A NumericDate (RFC 7519 section 2): seconds since 1970, with a fraction or without. nil for anything else, also for a number
    /// so large that it was meant as milliseconds.
    package init?(numericDate value: JSONValue?) {
        guard case .number(let number)? = value, (0..<1e11).contains(number.value) else { return nil }
        self.init(milliseconds: Int64(number.value * 1000))
    }
}

private let httpMonths = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
private let httpDays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
