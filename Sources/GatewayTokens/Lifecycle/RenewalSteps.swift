import GatewayHTTP

/// Which calls of one renewal follow a call that brought no token.
///
/// In this order, each once: the token that the store holds by now, the previous refresh token, and nothing. A parent token that
/// was refused is renewed once.
struct RenewalSteps: Sendable {
    private let rotatesRefreshToken: Bool
    private var refused: [Secret] = []
    private var hasAdopted = false
    private var hasRenewedParent = false

    init(rotatesRefreshToken: Bool) { self.rotatesRefreshToken = rotatesRefreshToken }

    /// Whether another refresh token is looked for. The authority has refused this one then, for good.
    mutating func lookForAnother(after failure: TokenFailure, of refreshToken: Secret?) -> Bool {
        guard rotatesRefreshToken, failure.endsRefreshToken else { return false }
        if let refreshToken { refused.append(refreshToken) }
        return true
    }

    /// Whether the previous refresh token is sent, although this one may still be good: it is unproven, so an authority that
    /// does not know it may answer in any way, such as with `invalid_request` or a bare 401. It is not sent again then if the
    /// previous one is refused for good.
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

    /// A redirect and a 404 are about the address, and a proxy asks for a login of its own.
    private static func mayConcernRefreshToken(_ reply: TokenReply) -> Bool {
        guard let error = RefreshError(reply), error != .transient else { return false }
        return !(300..<400).contains(reply.status) && ![404, 407].contains(reply.status)
    }

    /// Whether the authority has refused this refresh token, for good.
    func hasRefused(_ refreshToken: Secret?) -> Bool { refreshToken.map { refused.contains($0) } ?? false }

    /// Another gateway that shares the store may have renewed. What it stored is adopted once: the two would take turns for ever.
    var readsStore: Bool { !hasAdopted }

    mutating func adopted() { hasAdopted = true }

    /// The token of `record` with the previous refresh token; nil when that cannot help.
    ///
    /// - Parameter isUncertain: The authority may not have seen its successor confirmed.
    func previous(of record: StoredToken?, isUncertain: Bool) -> TokenSet? {
        guard isUncertain, var token = record?.token, let previous = record?.previousRefreshToken,
            !refused.contains(previous)
        else { return nil }
        token.refreshToken = previous
        return token
    }

    /// Whether the parent's token is renewed after it was refused. A new one that is refused as well means something else.
    mutating func renewsParent() -> Bool {
        defer { hasRenewedParent = true }
        return !hasRenewedParent
    }
}
