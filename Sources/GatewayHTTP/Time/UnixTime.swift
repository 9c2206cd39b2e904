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
