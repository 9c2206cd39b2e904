package import GatewayHTTP

/// The local CA, as far as the data plane asks it.
package protocol LeafAuthority: Sendable {
    /// A certificate for exactly this host. Takes some hundred microseconds, so it is not called on an event loop.
    ///
    /// - Throws: Why, for a host that the authority may not sign for. The data plane sees no difference between the reasons.
    func leaf(for host: String) throws -> LeafCertificate

    /// Certificates that were made before it has changed are not to be used.
    var generation: Int { get }
}

/// A certificate of the local CA, with its key.
package struct LeafCertificate: Sendable {
    /// DER: that of the host, then that of its issuer.
    package let chain: [[UInt8]]
    /// PEM.
    package let privateKey: Secret
    /// When to ask for another one.
    package let renewsAt: UnixTime

    package init(chain: [[UInt8]], privateKey: Secret, renewsAt: UnixTime) {
        self.chain = chain
        self.privateKey = privateKey
        self.renewsAt = renewsAt
    }
}
