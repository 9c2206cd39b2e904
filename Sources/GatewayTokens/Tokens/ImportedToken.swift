package import GatewayHTTP

/// A token that an operator brings: what an authorization server answered (RFC 6749 §5.1), or the bare access token.
package struct ImportedToken: Hashable, Sendable {
    /// nil when only the token that renews is known.
    package let access: Secret?
    package let refreshToken: Secret?
    /// How long the token lives from now on; nil if unknown.
    package let lifetime: Duration?
    package let expiresAt: UnixTime?

    package static let limitBytes = 64 << 10
    private static let tokenLimitBytes = 16 << 10

    package init(access: Secret?, refreshToken: Secret? = nil, lifetime: Duration? = nil, expiresAt: UnixTime? = nil) {
        self.access = access
        self.refreshToken = refreshToken
        self.lifetime = lifetime
        self.expiresAt = expiresAt
    }

    /// Reads one line that is the access token, or JSON. The JSON has `access_token`, `refresh_token` (or `session_token`,
    /// as services with sessions name it) and `expires_in` or `expires_at`; other members are ignored.
    ///
    /// - Throws: What is wrong with it; never a part of it.
    package init(reading bytes: [UInt8]) throws(UnusableInput) {
        guard bytes.count <= Self.limitBytes else { throw Self.unusable("it is longer than 64 KiB") }
        guard let text = String(validating: bytes, as: UTF8.self)?.trimmed, !text.isEmpty else {
            throw Self.unusable("it is empty, or not text")
        }
        guard !text.hasPrefix("<") else { throw Self.unusable("it is a web page") }
        guard text.hasPrefix("{") else {
            self.init(access: try Self.token(text, named: "the token"))
            return
        }
        guard let answer = JSONValue(Array(text.utf8)) else { throw Self.unusable("it is not valid JSON") }
        let refresh = try Self.member("refresh_token", of: answer)
        let session = try Self.member("session_token", of: answer)
        guard refresh == nil || session == nil else {
            throw Self.unusable("it has both refresh_token and session_token; give the one that renews")
        }
        let refreshToken = refresh ?? session
        let access = try Self.member("access_token", of: answer)
        guard access != nil || refreshToken != nil else {
            throw Self.unusable("it has neither access_token nor refresh_token")
        }
        self.init(
            access: access,
            refreshToken: refreshToken,
            lifetime: try Self.lifetime(answer["expires_in"]),
            expiresAt: try Self.end(answer["expires_at"])
        )
    }

    private static func member(_ name: String, of answer: JSONValue) throws(UnusableInput) -> Secret? {
        switch answer[name] {
        case nil, .null?: return nil
        case .string(let text)?: return try token(text, named: name)
        default: throw Self.unusable("\(name) is not a string")
        }
    }

    private static func token(_ text: String, named name: String) throws(UnusableInput) -> Secret {
        let scheme = "bearer "
        let text = text.lowercased().hasPrefix(scheme) ? String(text.dropFirst(scheme.count)) : text
        guard text.utf8.count <= tokenLimitBytes, FieldSyntax.isValue(text), !text.contains(" ") else {
            throw Self.unusable("\(name) is not one word of visible ASCII")
        }
        return Secret(text)
    }

    private static func lifetime(_ value: JSONValue?) throws(UnusableInput) -> Duration? {
        let seconds: Double?
        switch value {
        case nil, .null?: return nil
        case .number(let number)?: seconds = number.value
        case .string(let text)?: seconds = Double(text)
        default: seconds = nil
        }
        guard let seconds, seconds > 0, seconds < 1e9 else {
            throw Self.unusable("expires_in is not a number of seconds above 0")
        }
        return .seconds(Int64(seconds.rounded(.up)))
    }

    private static func end(_ value: JSONValue?) throws(UnusableInput) -> UnixTime? {
        switch value {
        case nil, .null?: return nil
        case .number?:
            if let time = UnixTime(numericDate: value), time.milliseconds > 0 { return time }
        case .string(let text)?:
            if let time = UnixTime(rfc3339: text, isLenient: true) { return time }
        default: break
        }
        throw Self.unusable("expires_at is neither a time such as 2026-03-01T09:30:00Z nor seconds since 1970")
    }

    private static func unusable(_ reason: String) -> UnusableInput {
        UnusableInput(reason + #"; give a token, or JSON such as {"access_token": "…", "refresh_token": "…"}"#)
    }
}

extension String {
    fileprivate var trimmed: String {
        guard let first = firstIndex(where: { !$0.isWhitespace }), let last = lastIndex(where: { !$0.isWhitespace })
        else { return "" }
        return String(self[first...last])
    }
}
