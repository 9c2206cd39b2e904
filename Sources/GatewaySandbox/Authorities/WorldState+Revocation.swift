extension WorldState {
    /// Ends the token and all that came from its grant. A token that is not this client's is left alone, without a
    /// word about it (RFC 7009 §2.2).
    mutating func revokeFamily(of value: String, issuedBy authority: OriginName, to client: String?, at now: Int64) {
        let token: IssuedToken
        switch registry.lookUp(value, at: now) {
        case .live(let found), .expired(let found), .spent(let found), .revoked(let found): token = found
        case .unknown: return
        }
        guard token.authority == authority, token.client == client else { return }
        registry.revoke(family: token.family)
    }
}
