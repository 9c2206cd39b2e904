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
