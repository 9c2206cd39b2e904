import GatewayCore
import NIOCore

/// The upstream connection of one client connection, for routes with `connection_auth: true`.
///
/// NTLM and Negotiate authenticate a connection. The upstream would take another client on it for the client that has
/// authenticated. So the connection is opened for one client connection and one client's name, and it does not return
/// to a pool between requests. It ends with the client connection, with a reload and with a drain. It counts as a
/// connection of its pool.
final class PrivateConnection {
    private let pool: UpstreamPool
    private let client: String?
    /// The connection while it carries no request.
    private var idle: HTTP1UpstreamConnection?
    private var isClosed = false

    /// - Parameter client: The name of the client that sends the requests.
    init(to pool: UpstreamPool, for client: String?) {
        self.pool = pool
        self.client = client
    }

    /// Whether the requests of this client to this pool use it.
    func serves(_ pool: UpstreamPool, _ client: String?) -> Bool { self.pool === pool && self.client == client }

    /// The connection is in the middle of a read, where a request comes that its client had sent ahead.
    var isBusyReading: Bool { idle?.mayBeEnding ?? false }

    /// The connection, if there is one that has not ended.
    func takeIdle() -> HTTP1UpstreamConnection? {
        guard let connection = idle.take(), connection.isOpen else { return nil }
        if let id = connection.id { pool.takePrivate(id) }
        guard connection.hasInput else { return connection }
        connection.abandon(isCut: false)
        return nil
    }

    /// The request of the connection is over, and it can carry another one.
    func putBack(_ connection: HTTP1UpstreamConnection, _ id: ConnectionID, keepAliveSeconds: Int?) {
        guard !isClosed, idle == nil else { return connection.close() }
        if pool.keepPrivate(connection, id, keepAliveSeconds: keepAliveSeconds) { idle = connection }
    }

    func connectionEnded(_ connection: HTTP1UpstreamConnection) {
        if idle === connection { idle = nil }
    }

    func closeIdle() { idle.take()?.closeIdle() }

    /// The client connection has no use for it any more. A request that is under way is the last.
    func close() {
        isClosed = true
        closeIdle()
    }
}
