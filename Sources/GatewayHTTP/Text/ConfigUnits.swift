/// The spellings of durations and sizes.
package enum ConfigUnits {
    package static func duration(_ text: String) -> Duration? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard !digits.isEmpty, digits.count <= 9, let number = Int64(digits) else { return nil }
        switch text.dropFirst(digits.count) {
        case "ms": return .milliseconds(number)
        case "s": return .seconds(number)
        case "m": return .seconds(number * 60)
        case "h": return .seconds(number * 3600)
        case "d": return .seconds(number * 86_400)
        default: return nil
        }
    }

    /// One that no `Int` holds is `Int.max`: it is spelled well, and too large for every range.
    package static func size(_ text: String) -> Int? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard !digits.isEmpty, digits.count <= 16, let number = Int(digits) else { return nil }
        func times(_ unit: Int) -> Int {
            let (product, overflows) = number.multipliedReportingOverflow(by: unit)
            return overflows ? .max : product
        }
        return switch text.dropFirst(digits.count) {
        case "", "B": number
        case "KiB": times(1 << 10)
        case "MiB": times(1 << 20)
        case "GiB": times(1 << 30)
        default: nil
        }
    }

    /// The shortest spelling of a duration, as it would stand in the file.
    package static func text(_ duration: Duration) -> String {
        let milliseconds = duration.wholeMilliseconds
        guard milliseconds % 1000 == 0, milliseconds > 0 else { return milliseconds == 0 ? "0s" : "\(milliseconds)ms" }
        let seconds = milliseconds / 1000
        if seconds % 86_400 == 0 { return "\(seconds / 86_400)d" }
        if seconds % 3600 == 0 { return "\(seconds / 3600)h" }
        if seconds % 60 == 0 { return "\(seconds / 60)m" }
        return "\(seconds)s"
    }

    /// In seconds, where that is the customary spelling: `60s`.
    package static func seconds(_ duration: Duration) -> String { "\(duration.components.seconds)s" }

    /// The shortest spelling of a size.
    package static func text(bytes: Int) -> String {
        guard bytes > 0 else { return "0" }
        if bytes % (1 << 30) == 0 { return "\(bytes >> 30)GiB" }
        if bytes % (1 << 20) == 0 { return "\(bytes >> 20)MiB" }
        if bytes % (1 << 10) == 0 { return "\(bytes >> 10)KiB" }
        return "\(bytes)"
    }

    /// A size for people, with one digit behind the point: `1.5 MiB`.
    package static func rounded(bytes: Int) -> String {
        let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
        guard bytes >= 1024 else { return "\(bytes) B" }
        let power = (Int.bitWidth - 1 - bytes.leadingZeroBitCount) / 10
        let tenths = (Double(bytes) / Double(1 << (10 * power)) * 10).rounded()
        return "\(Int(tenths) / 10).\(Int(tenths) % 10) \(units[power - 1])"
    }
}

extension ConfigUnits {
    /// `1h02m`, `4m10s`, `12s`.
    package static func countdown(_ seconds: Int) -> String {
        let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60)
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : String(number) }
        if hours >= 48 { return "\(hours / 24)d" }
        if hours > 0 { return "\(hours)h\(two(minutes))m" }
        return minutes > 0 ? "\(minutes)m\(two(rest))s" : "\(rest)s"
    }
}

extension Int {
    /// `1 route`, `2 routes`: for nouns whose plural ends with `s`.
    package func counted(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
