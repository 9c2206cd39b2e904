import GatewayHTTP

/// Which calls of one renewal follow a call that brought no token.
///
/// It tries, each once: the token that the store now holds, then the previous refresh token. A parent token that was refused is renewed
/// once.
struct RenewalSteps: Sendable {
    private let rotatesRefreshToken: Bool
    private var refused: [Secret] = []
    private var hasAdopted = false
    private var hasRenewedParent = false

    init(rotatesRefreshToken: Bool) { self.rotatesRefreshToken = rotatesRefreshToken }

    /// Whether to look for another refresh token, because the server has refused this one for good.
    mutating func lookForAnother(after failure: TokenFailure, of refreshToken: Secret?) -> Bool {
        guard rotatesRefreshToken, failure.endsRefreshToken else { return false }
        if let refreshToken { refused.append(refreshToken) }
        return true
    }

    /// Whether to send the previous refresh token, although this one may still be valid. This one is unproven, and a server that does not
    /// know it may answer anything, such as `invalid_request` or 401 without a code. If the previous one is then refused for good, this
    /// one is not sent again.
    mutating func passesOver(
        _ refreshToken: Secret?,
        after reply: TokenReply?,
        in record: StoredToken?,
        isUncertain: Bool
    ) -> Bool {
        guard rotatesRefreshToken, let record, record.isUnproven, let refreshToken, let reply,
            refreshToken == record.token.refreshToken, Self.mayConcernRefreshToken(reply),
            previous(of: record, isUncertain: isUncertain) != nil
        else { return false }
        refused.append(refreshToken)
        return true
    }

    /// A redirect and a 404 are about the address, and 407 is about a proxy.
    private static func mayConcernRefreshToken(_ reply: TokenReply) -> Bool {
        guard let error = RefreshError(reply), error != .transient else { return false }
        return !(300..<400).contains(reply.status) && ![404, 407].contains(reply.status)
    }

    /// Whether the server has refused this refresh token for good.
    func hasRefused(_ refreshToken: Secret?) -> Bool { refreshToken.map { refused.contains($0) } ?? false }

    /// Whether to read the store: another gateway may have renewed. Its token is adopted once; otherwise the two could alternate
    /// forever.
    var readsStore: Bool { !hasAdopted }

    mutating func adopted() { hasAdopted = true }

    /// The token of `record` with the previous refresh token; nil if that cannot help.
    ///
    /// - Parameter isUncertain: The server may still accept the previous refresh token.
    func previous(of record: StoredToken?, isUncertain: Bool) -> TokenSet? {
        guard isUncertain, var token = record?.token, let previous = record?.previousRefreshToken,
            !refused.contains(previous)
        else { return nil }
        token.refreshToken = previous
        return token
    }

    /// Whether to renew the parent's token after it was refused. If a new one is refused as well, the reason is another.
    mutating func renewsParent() -> Bool {
        defer { hasRenewedParent = true }
        return !hasRenewedParent
    }
}
