package import GatewayCore
package import NIOCore

/// TLS of the admin listener, given as closures so that it knows none of its neighbours.
package struct AdminSecurity: Sendable {
    /// Adds TLS to a connection that was accepted.
    let secure: @Sendable (any Channel) -> EventLoopFuture<Void>
    /// Who is at the other end, by the certificate; nil without one.
    let peer: @Sendable (any Channel) async -> PeerIdentity?

    package init(
        secure: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>,
        peer: @escaping @Sendable (any Channel) async -> PeerIdentity?
    ) {
        self.secure = secure
        self.peer = peer
    }
}
