package import GatewayHTTP

/// The times that a JWT states about itself (RFC 7519 §4.1), read without verifying it. The upstream verifies the
/// token; the gateway only needs to know when to renew it.
package struct UnverifiedJWT {
    package let issuedAt: UnixTime?
    package let expiresAt: UnixTime?

    /// nil when `token` is not a JWT with a readable payload.
    package init?(_ token: Secret) {
        let payload = token.withValue { text -> JSONValue? in
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 3 else { return nil }
            return Base64.decodeURL(parts[1]).flatMap { JSONValue($0) }
        }
        guard let payload, case .object = payload else { return nil }
        issuedAt = Self.time(payload["iat"])
        expiresAt = Self.time(payload["exp"])
    }

    /// Some write 0 for a token without an end.
    private static func time(_ value: JSONValue?) -> UnixTime? {
        UnixTime(numericDate: value).flatMap { $0.milliseconds > 0 ? $0 : nil }
    }

    /// The end of a token that has just been issued.
    ///
    /// One that seems to be over already means that the clocks disagree: then the lifetime counts from now, if the
    /// token states both ends, and is unknown otherwise. Dropping the token would lose a rotated pair.
    package func expiry(issuedAt now: UnixTime) -> UnixTime? {
        guard let expiresAt, expiresAt <= now else { return expiresAt }
        guard let issuedAt, issuedAt < expiresAt else { return nil }
        return now + (expiresAt - issuedAt)
    }
}
