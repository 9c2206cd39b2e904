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
}

private let httpMonths = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
private let httpDays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
