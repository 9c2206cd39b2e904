package import GatewayHTTP

/// Hands tokens out to clients, so that the gateway can be the token server of others.
package protocol VendingControl: Sendable {
    /// Hands out what `vend` of the credential says, once the event `vended` is committed.
    ///
    /// - Parameters:
    ///   - credential: As the configuration names it.
    ///   - tokens: What the client presented; one that is known is enough.
    ///   - subjects: The values of a field of the request, for a credential whose requests name the subject.
    func vend(
        _ credential: String,
        presenting tokens: [[UInt8]],
        naming subjects: @Sendable (_ field: String) -> [String]
    ) async -> Result<VendedToken, GatewayProblem>
}

/// An access token on its way to a client that uses it by itself. Never the token that renews it.
package struct VendedToken: Hashable, Sendable {
    package let access: Secret
    /// RFC 6749 §7.1: `Bearer`, or `N_A` (RFC 8693 §2.2.1) for a token that goes elsewhere.
    package let type: String
    /// Whole seconds; nil for a token that does not end by itself.
    package let expiresIn: Int?
    package let expiresAt: UnixTime?
}
