package import GatewayHTTP

/// What an authority handed out: the token for upstreams and, for two-token grants, the one that renews it.
package struct TokenSet: Hashable, Sendable {
    /// Goes upstream.
    package var access: Secret
    /// Goes to the authority only: a refresh token (RFC 6749 §1.5), or what renews a session.
    package var refreshToken: Secret?
    /// What else the grant wants to keep, by name: goes where the grant says.
    package var extras: [String: Secret]
    /// When the answer that carried it had arrived.
    package var obtainedAt: UnixTime
    /// nil when the authority did not say: such a token is used until it is rejected.
    package var expiresAt: UnixTime?
    /// When ``refreshToken`` ends unless it is used; nil when the authority did not say.
    package var refreshTokenExpiresAt: UnixTime?
    /// Since when ``refreshTokenExpiresAt`` has been as far away as it can be; nil when that is ``obtainedAt``.
    ///
    /// Some authorities begin the time anew with each renewal, others count down from the login.
    package var refreshTokenObtainedAt: UnixTime?

    package init(
        access: Secret,
        refreshToken: Secret? = nil,
        extras: [String: Secret] = [:],
        obtainedAt: UnixTime,
        expiresAt: UnixTime? = nil,
        refreshTokenExpiresAt: UnixTime? = nil,
        refreshTokenObtainedAt: UnixTime? = nil
    ) {
        self.access = access
        self.refreshToken = refreshToken
        self.extras = extras
        self.obtainedAt = obtainedAt
        self.expiresAt = expiresAt
        self.refreshTokenExpiresAt = refreshTokenExpiresAt
        self.refreshTokenObtainedAt = refreshTokenObtainedAt
    }

    /// For a refresh token that is probably spent: what is announced is the end of the access token.
    package mutating func endLoginWithAccess() {
        guard refreshToken != nil, let expiresAt else { return }
        (refreshTokenExpiresAt, refreshTokenObtainedAt) = (expiresAt, nil)
    }

    package var lifetime: Duration? { expiresAt.map { $0 - obtainedAt } }
}
