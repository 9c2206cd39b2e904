import GatewayCore
import NIOSSL

/// The certificate that a client shows on a listener with `tls.client_ca`.
struct PeerCertificate {
    private let tls: NIOSSLServerHandler

    init(_ tls: NIOSSLServerHandler) { self.tls = tls }

    /// - Returns: nil where the listener asks clients for no certificate.
    init?(_ plan: ListenerPlan.TLS?, _ tls: NIOSSLServerHandler) {
        guard plan?.clientCAPath != nil else { return nil }
        self.tls = tls
    }

    /// What it names, when the handshake is over. The library has verified it against `client_ca`.
    ///
    /// - Returns: nil without a certificate. Also for one that has ended: a resumed session verifies none.
    func identity(at now: UnixTime) -> PeerIdentity? {
        guard let leaf = tls.peerCertificate, UnixTime(seconds: Int64(leaf.notValidAfter)) >= now else { return nil }
        let names = leaf._subjectAlternativeNames()
        guard names.count <= PeerIdentity.maximumNames else { return nil }
        return PeerIdentity(
            names.compactMap { name in
                switch name.nameType {
                case .dnsName: PeerIdentity.Name(dns: Array(name.contents))
                case .uri: PeerIdentity.Name(uri: Array(name.contents))
                default: nil
                }
            }
        )
    }
}
