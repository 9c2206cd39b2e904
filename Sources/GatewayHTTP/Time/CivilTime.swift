/// The proleptic Gregorian calendar in UTC (Howard Hinnant, "chrono-compatible low-level date algorithms").
struct CivilTime {
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
