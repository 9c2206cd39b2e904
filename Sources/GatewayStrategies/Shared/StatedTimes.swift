import GatewayCore

/// When a token ends, as answers write it.
enum StatedTimes {
    /// An instant: RFC 3339 and what is close to it, the date format of HTTP, or seconds since 1970 (milliseconds when there are
    /// that many).
    static func instant(_ text: String) -> UnixTime? {
        if let number = Double(text) { return instant(number) }
        return (UnixTime(rfc3339: text, isLenient: true) ?? UnixTime(httpDate: text)).flatMap {
            $0 < earliest ? nil : $0
        }
    }

    static func instant(_ value: JSONValue) -> UnixTime? {
        switch value {
        case .string(let text): instant(text)
        case .number(let number): instant(number.value)
        default: nil
        }
    }

    static func instant(_ number: Double) -> UnixTime? {
        guard number > 0, number < 1e15 else { return nil }
        let instant = UnixTime(milliseconds: Int64(number > 1e11 ? number : number * 1000))
        return instant < earliest ? nil : instant
    }

    /// September 2001. What is earlier means something else: an empty time of Go is in the year 1, and a small number is a number
    /// of seconds.
    private static let earliest = UnixTime(seconds: 1_000_000_000)

    /// When a token ends: what its answer states, or else its own `exp` claim, or else what the configuration expects.
    ///
    /// A statement that cannot be read is remarked upon and counts as none: the token itself is good.
    ///
    /// - Parameters:
    ///   - instant: What stands where the answer names a time.
    ///   - seconds: What stands where it names a lifetime.
    ///   - isForgiving: Whether a lifetime that is over already is as if it could not be read. Otherwise the answer is broken.
    static func end(
        of token: Secret,
        at instant: JSONValue?,
        after seconds: JSONValue?,
        usually lifetime: Duration?,
        from now: UnixTime,
        isForgiving: Bool,
        remarks: inout [String]
    ) throws(BrokenAnswer) -> UnixTime? {
        if let instant, instant != .null, let end = Self.instant(instant) { return end }
        do throws(BrokenAnswer) {
            if let stated = try OAuthTokenResponse.lifetime(seconds, at: now) { return now + stated }
        } catch {
            if !isForgiving { throw error }
        }
        let own = UnverifiedJWT(token)?.expiry(issuedAt: now)
        if [instant, seconds].contains(where: { $0 != nil && $0 != .null }) {
            let instead =
                own != nil ? "its exp claim counts" : lifetime != nil ? "the configured lifetime counts" : unlimited
            remarks.append(
                "the end of the token is neither a time with a zone nor a positive number of seconds; \(instead)"
            )
        }
        return own ?? lifetime.map { now + $0 }
    }

    static let unlimited = "the token is used until it is rejected"
}
