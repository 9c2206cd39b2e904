import GatewayHTTP

/// A token that an attempt has brought, judged by its stated end.
///
/// One that has already expired is not used, unless its refresh token rotates. Then the clocks may differ, and the refresh token must not be
/// lost: the token is treated as one that came without an expiry.
struct ArrivedToken: Hashable, Sendable {
    /// nil if the token has already expired.
    let usable: TokenSet?
    /// What is odd about it, for the log.
    let remark: String?

    init(_ token: TokenSet, by grant: any TokenGrant, at now: UnixTime) {
        guard let end = token.expiresAt, end <= now else {
            (usable, remark) = (token, nil)
            return
        }
        guard grant.rotatesRefreshToken else {
            (usable, remark) = (nil, nil)
            return
        }
        var live = token
        live.expiresAt = nil
        live = grant.completing(live)
        // The expiry may come from its own exp claim.
        if let end = live.expiresAt, end <= now { live.expiresAt = nil }
        let instead = live.expiresAt == nil ? "it is used until it is rejected" : "the configured lifetime counts"
        (usable, remark) = (live, "the token's stated expiry is already in the past; \(instead)")
    }
}
