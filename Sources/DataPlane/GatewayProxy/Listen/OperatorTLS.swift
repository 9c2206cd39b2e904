package import GatewayCore
package import NIOCore
import NIOSSL
import Synchronization

/// TLS of the admin listener, which another target serves.
///
/// A client may show a certificate, and need not: users prove themselves by a token, too.
package final class OperatorTLS: Sendable {
    /// What was read of a configuration, before it is in use.
    package struct Prepared: Sendable {
        fileprivate let context: NIOSSLContext
    }

    private let context: Mutex<NIOSSLContext>
    private let clock: any GatewayClock

    package init(_ prepared: Prepared, clock: any GatewayClock) {
        context = Mutex(prepared.context)
        self.clock = clock
    }

    /// Reads certificates and key.
    ///
    /// - Throws: ``ListenerError`` where they cannot be used.
    package static func prepare(_ plan: ListenerPlan.TLS) throws(ListenerError) -> Prepared {
        do throws(TLSFiles.Problem) {
            let clientCAs = try plan.clientCAPath.map(TLSFiles.certificates)
            let context = try TLSFiles.serverContext(
                plan,
                clientCAs,
                protocols: [ApplicationProtocol.http1],
                needsCertificate: false
            )
            return Prepared(context: context)
        } catch {
            throw ListenerError("listeners.admin: the TLS settings cannot be used: \(error)")
        }
    }

    /// For connections that are accepted from now on.
    package func use(_ prepared: Prepared) { context.withLock { $0 = prepared.context } }

    package func secure(_ channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            let handler = NIOSSLServerHandler(context: context.withLock { $0 })
            try channel.pipeline.syncOperations.addHandler(handler)
        }
    }

    /// Who is at the other end of a connection whose handshake is over.
    package func peer(of channel: any Channel) async -> PeerIdentity? {
        let now = clock.now().wall
        return try? await channel.eventLoop.submit {
            let handler = try channel.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self)
            return PeerCertificate(handler).identity(at: now)
        }.get()
    }
}
