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
        return "\(digits(civil.year, 4))-\(digits(civil.month, 2))-\(digits(civil.day, 2))T"
            + "\(digits(civil.hour, 2)):\(digits(civil.minute, 2)):\(digits(civil.second, 2))"
            + ".\(digits(civil.millisecond, 3))Z"
    }

    private func digits(_ value: Int64, _ width: Int) -> String {
        let text = String(value)
        return String(repeating: "0", count: max(0, width - text.count)) + text
    }

    /// Reads RFC 3339 (`2026-03-01T09:30:00Z`, with a fraction or an offset); nil when it is anything else.
    package init?(rfc3339 text: String) {
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
        guard let year = number(4, then: "-"), let month = number(2, then: "-"), let day = number(2, then: "T"),
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
        var offset: Int64 = 0
        switch rest.first {
        case "Z", "z":
            rest = rest.dropFirst()
        case "+", "-":
            let sign: Int64 = rest.first == "-" ? -1 : 1
            rest = rest.dropFirst()
            guard let hours = number(2, then: ":"), let minutes = number(2), hours < 24, minutes < 60 else {
                return nil
            }
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

    init(_ time: UnixTime) {
        let (days, rest) = CivilTime.floorDivide(time.milliseconds, 86_400_000)
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
}
