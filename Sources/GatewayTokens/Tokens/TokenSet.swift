package import GatewayHTTP

/// What an authorization server handed out: the token for upstreams and, for two-token grants, the one that renews it.
///
/// The other words for a token, in the order of its way:
///
/// - ``FreshToken``: a token set on its way into the lifecycle, from the authority, the store or an operator (``ImportedToken``)
/// - ``HeldToken``: a token set in the lifecycle, with what it learned: rejected, expired, when to renew
/// - ``StoredToken``: a token set as a store keeps it, with generation, unfinished rotation and refusal
/// - ``TokenEntry``: what a store holds under a key: a stored token or nothing, and its revision
/// - ``Credential``: what the request path reads: the injection, its generation, its expiry
/// - ``LiveToken``: an access token that another credential may use now, as its parent
/// - ``VendedToken``, ``RevealedToken``: an access token on its way to a client, or to the operator who asked for it
package struct TokenSet: Hashable, Sendable {
    /// The token for upstreams.
    package var access: Secret
    /// Sent to the authorization server only: a refresh token (RFC 6749 §1.5), or what renews a session.
    package var refreshToken: Secret?
    /// What else the grant wants to keep, by name: goes where the grant says.
    package var extras: [String: Secret]
    /// When the answer that carried it had arrived.
    package var obtainedAt: UnixTime
    /// nil when the authorization server did not say: such a token is used until it is rejected.
    package var expiresAt: UnixTime?
    /// When ``refreshToken`` ends unless it is used; nil when the authority did not say.
    package var refreshTokenExpiresAt: UnixTime?
    /// Since when ``refreshTokenExpiresAt`` has been as far away as it can be; nil when that is ``obtainedAt``.
    ///
    /// Some authorization servers begin the time anew with each renewal, others count down from the login.
    package var refreshTokenObtainedAt: UnixTime?
    /// The scopes that a person has added to those of the configuration with a login. Renewals keep them, and later logins ask for them
    /// again, so that one grows what an earlier one got (the specification of MCP of 2026-07-28, "Step-Up Authorization Flow").
    package var addedScopes: [String] = []

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
