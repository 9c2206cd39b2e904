package import GatewayHTTP

/// Something with a known end that only a person can replace: for `status`, the admin page, metrics and the audit log.
package struct Expiration: Hashable, Sendable, Codable {
    package enum Kind: String, CaseIterable, Sendable, Codable {
        /// A token that nothing renews, such as a developer token.
        case token
        /// What renews a token, and ends unless it is used, or at all.
        case login
        /// A client secret, signing key, password or API key of the configuration.
        case secret
        /// X.509.
        case certificate

        /// How long before the end it is time to act, at most.
        package var notice: Duration {
            switch self {
            case .token: .seconds(600)
            case .login: .seconds(7 * 86_400)
            case .secret, .certificate: .seconds(14 * 86_400)
            }
        }
    }

    package var kind: Kind
    /// The credential, or the place of the certificate in the configuration.
    package var of: String
    /// RFC 3339.
    package var endsAt: String
    package var remainingSeconds: Int
    /// Whether it is time to act.
    package var isSoon: Bool
    /// What a person should do.
    package var action: String

    /// - Parameter start: When the thing that ends began; what lives shortly is announced in the last fifth of its life.
    package init(
        _ kind: Kind,
        of name: String,
        from start: UnixTime?,
        to end: UnixTime,
        at now: UnixTime,
        action: String
    ) {
        let remaining = end - now
        let lifetime = start.map { end - $0 }
        self.kind = kind
        of = name
        endsAt = end.rfc3339
        remainingSeconds = remaining.secondsLeft
        isSoon = remaining <= (kind == .token ? kind.notice : min(kind.notice, lifetime.map { $0 / 5 } ?? kind.notice))
        self.action = action
    }
}
