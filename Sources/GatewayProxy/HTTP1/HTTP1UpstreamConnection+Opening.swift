import GatewayCore
import NIOCore

extension HTTP1UpstreamConnection {
    /// What waits for the connection to become ready.
    struct Opening {
        let origin: Origin
        let done: UpstreamPool.Done
    }

    /// The connection is the one that the pool has dialled.
    ///
    /// - Parameter owner: Of a private connection.
    /// - Returns: Whether the pool is told when the connection ends; false when it has ended already.
    func begin(as id: ConnectionID, of owner: PrivateConnection?) -> Bool {
        guard context?.channel.isActive ?? false else { return false }
        self.id = id
        self.owner = owner
        return true
    }

    /// Calls `done` once requests can be sent: when the library has said that it is connected, or the TLS handshake is complete.
    ///
    /// Not in the turn of the connection attempt's own future: what is closed there becomes inactive without a word.
    func whenReady(origin: Origin, _ done: @escaping UpstreamPool.Done) {
        switch phase {
        case .opening:
            opening = Opening(origin: origin, done: done)
            setDeadline(timeouts.connect)
        case .closed: done(.failure(Self.lost))
        default: done(.success(self))
        }
    }

    func becameReady() {
        phase = .idle
        clearDeadline()
        settle(.success(self))
    }

    func settle(_ result: Result<any UpstreamStream, GatewayProblem>) { opening.take()?.done(result) }

    static var lost: GatewayProblem {
        GatewayProblem(.upstreamUnreachable, "The upstream closed the connection.", hopError: .connectionTerminated)
    }
}
