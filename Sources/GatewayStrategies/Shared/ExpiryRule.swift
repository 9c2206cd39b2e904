import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// When tokens of a credential end: its keys `expiry` and `lifetime`.
struct ExpiryRule: Hashable {
    enum Source: String, CaseIterable {
        case response
        case jwtExp = "jwt_exp"
        case fixed
        /// The token is used until it is rejected.
        case none
    }

    private(set) var source: Source
    /// The lifetime of every token if it is fixed, otherwise of those whose expiry is not known.
    private(set) var lifetime: Duration?

    private static let keys = Keys(ExpiryRule(source: .response)) {
        $0("lifetime", \.lifetime, .duration(.seconds(1) ... .seconds(366 * 86_400)), example: "30m")
            .means(
                "The token lifetime: of every token with expiry: fixed, otherwise only if the response states no usable expiry."
            )
        $0("expiry", \.source, .choice, example: "jwt_exp")
            .means("What says when a token expires: the response, its exp claim, the fixed lifetime, or nothing.")
    }

    init(source: Source, lifetime: Duration? = nil) {
        (self.source, self.lifetime) = (source, lifetime)
    }

    init(in fields: ConfigFields) {
        self = Self.keys.defaults
        Self.keys.read(fields, into: &self)
        if source == .none, fields.has("lifetime") {
            fields.error(
                "lifetime",
                "has no effect with \"expiry: none\", where a token is used until it is rejected"
            )
        }
        if source == .fixed, !fields.has("lifetime") {
            fields.error("missing key \"lifetime\", which \"expiry: fixed\" needs")
        }
    }

    /// A token from the configuration or an import. It may be old: its `exp` counts although it is over.
    func completing(_ token: TokenSet) -> TokenSet {
        guard token.expiresAt == nil else { return token }
        var token = token
        token.expiresAt = end(from: token.obtainedAt) { UnverifiedJWT(token.access)?.expiresAt }
        return token
    }

    /// The end of a token that was issued just now and came without any statement about it.
    func end(of token: Secret, issuedAt now: UnixTime) -> UnixTime? {
        end(from: now) { UnverifiedJWT(token)?.expiry(issuedAt: now) }
    }

    /// The end of a token that was issued just now. See ``StatedTimes/end(of:at:after:usually:from:isForgiving:remarks:)``.
    func end(
        of token: Secret,
        at instant: JSONValue? = nil,
        after seconds: JSONValue?,
        from now: UnixTime,
        isForgiving: Bool,
        remarks: inout [String]
    ) throws(BrokenAnswer) -> UnixTime? {
        guard source == .response else { return end(of: token, issuedAt: now) }
        return try StatedTimes.end(
            of: token,
            at: instant,
            after: seconds,
            usually: lifetime,
            from: now,
            isForgiving: isForgiving,
            remarks: &remarks
        )
    }

    private func end(from start: UnixTime, stated: () -> UnixTime?) -> UnixTime? {
        switch source {
        case .response, .jwtExp: stated() ?? lifetime.map { start + $0 }
        case .fixed: lifetime.map { start + $0 }
        case .none: nil
        }
    }
}

/// When a token expires, as responses write it.
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

    /// When a token expires: what its response states, or else its own `exp` claim, or else what the configuration expects.
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
                own != nil ? "its exp claim applies" : lifetime != nil ? "the configured lifetime applies" : unlimited
            remarks.append(
                "the expiry of the token is neither a time with a zone nor a positive number of seconds; \(instead)"
            )
        }
        return own ?? lifetime.map { now + $0 }
    }

    static let unlimited = "the token is used until it is rejected"
}
