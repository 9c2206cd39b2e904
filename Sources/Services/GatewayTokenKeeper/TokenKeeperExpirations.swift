package import GatewayCore

extension TokenKeeper {
    /// What of this credential's token only a person can replace, and when that ends.
    package func expirations(at now: Moment) -> [Expiration] {
        guard let token = look({ $0.held?.token }) else { return [] }
        var expirations: [Expiration] = []
        if !isRenewable, let end = token.expiresAt {
            let action = context.manualRenewal?.problem.command ?? context.importCommand
            let start = token.obtainedAt
            expirations.append(Expiration(.token, of: name, from: start, to: end, at: now.wall, action: action))
        }
        if let command = context.loginCommand, let end = token.refreshTokenExpiresAt {
            let start = token.refreshTokenObtainedAt ?? token.obtainedAt
            expirations.append(Expiration(.login, of: name, from: start, to: end, at: now.wall, action: command))
        }
        return expirations
    }
}
