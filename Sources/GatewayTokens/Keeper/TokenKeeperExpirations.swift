package import GatewayHTTP

extension TokenKeeper {
    /// What of this credential's token only a person can replace, and when that ends.
    package func expirations(at now: Moment) -> [Expiration] {
        guard let held = look({ $0.held }) else { return [] }
        let token = held.token
        var expirations: [Expiration] = []
        if !isRenewable, let end = token.expiresAt {
            let action = context.manualRenewal?.problem.command ?? context.importCommand
            let start = token.obtainedAt
            expirations.append(Expiration(.token, of: name, from: start, to: end, at: now.wall, action: action))
        }
        let loginEnd = held.lacksRefreshToken ? token.expiresAt : token.refreshTokenExpiresAt
        if let command = context.loginCommand, let end = loginEnd {
            let start = token.refreshTokenObtainedAt ?? token.obtainedAt
            expirations.append(Expiration(.login, of: name, from: start, to: end, at: now.wall, action: command))
        }
        return expirations
    }
}
