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

    /// An IMF-fixdate, as it is written into `Date`.
    package var httpDate: String {
        let civil = CivilTime(self)
        let date = "\(civil.digits(\.day)) \(httpMonths[Int(civil.month) - 1]) \(civil.digits(\.year, 4))"
        return "\(httpDays[civil.weekday]), \(date) \(civil.timeOfDay) GMT"
    }
}

private let httpMonths = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
private let httpDays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
