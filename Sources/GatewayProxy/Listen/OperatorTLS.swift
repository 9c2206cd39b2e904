package import GatewayHTTP
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
        fileprivate let clientCAs: [NIOSSLCertificate]?
    }

    /// What connections are accepted with.
    private struct Accepting {
        var settings: Prepared
        /// Counts the authorities of certificates that clients show.
        var number = 0
    }

    private let accepting: Mutex<Accepting>
    private let clock: any GatewayClock

    package init(_ prepared: Prepared, clock: any GatewayClock) {
        accepting = Mutex(Accepting(settings: prepared))
        self.clock = clock
    }

    /// Reads certificates and key.
    ///
    /// - Throws: ``ListenerError`` where they cannot be used.
    package static func prepare(_ plan: ListenerPlan.TLS) throws(ListenerError) -> Prepared {
        do throws(UnusableInput) {
            let clientCAs = try plan.clientCAPath.map(TLSFiles.certificates)
            let context = try TLSFiles.serverContext(
                plan,
                clientCAs,
                protocols: [ApplicationProtocol.http1],
                needsCertificate: false
            )
            return Prepared(context: context, clientCAs: clientCAs)
        } catch {
            throw ListenerError("listeners.admin: the TLS settings cannot be used: \(error.message)")
        }
    }

    /// For connections that are accepted from now on. A certificate that another authority has issued proves nothing any more.
    package func use(_ prepared: Prepared) {
        accepting.withLock { accepting in
            if accepting.settings.clientCAs != prepared.clientCAs { accepting.number += 1 }
            accepting.settings = prepared
        }
    }

    package func secure(_ channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            let (context, number) = accepting.withLock { ($0.settings.context, $0.number) }
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandler(NIOSSLServerHandler(context: context))
            try pipeline.addHandler(AcceptedWith(number))
        }
    }

    /// Who is at the other end of a connection whose handshake is over.
    package func peer(of channel: any Channel) async -> PeerIdentity? {
        let now = clock.now().wall
        return try? await channel.eventLoop.submit {
            let pipeline = channel.pipeline.syncOperations
            let number = try pipeline.handler(type: AcceptedWith.self).number
            guard number == self.accepting.withLock({ $0.number }) else { return nil }
            return PeerCertificate(try pipeline.handler(type: NIOSSLServerHandler.self)).identity(at: now)
        }.get()
    }
}

/// Tells with which authorities a connection was accepted.
private final class AcceptedWith: ChannelInboundHandler {
    typealias InboundIn = NIOAny

    let number: Int

    init(_ number: Int) { self.number = number }
}
