import GatewayCore

/// When a token ends, as answers write it.
enum StatedTimes {
    /// An instant: RFC 3339, the date format of HTTP, or seconds since 1970 (milliseconds when there are that many).
    static func instant(_ text: String) -> UnixTime? {
        if let time = UnixTime(rfc3339: text) ?? UnixTime(httpDate: text) { return time }
        guard let number = Double(text), number > 0, number < 1e15 else { return nil }
        return UnixTime(milliseconds: Int64(number > 1e11 ? number : number * 1000))
    }

    static func instant(_ value: JSONValue) -> UnixTime? {
        switch value {
        case .string(let text): instant(text)
        case .number(let number): instant(number.text)
        default: nil
        }
    }

    /// The end after a number of seconds; some authorities write an instant in its place.
    static func end(after text: String, from now: UnixTime) throws(BrokenAnswer) -> UnixTime {
        if Double(text) == nil, let instant = instant(text) { return instant }
        guard let lifetime = try OAuthTokenResponse.lifetime(.string(text)) else {
            throw BrokenAnswer(reason: "its lifetime is not a number of seconds")
        }
        return now + lifetime
    }
}
