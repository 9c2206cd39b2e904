import GatewayProxy
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import Synchronization

/// The admin listener: status page, health, metrics and the operations of the command line.
///
/// Bound first and served later, so that a port in use is found before anything else starts.
actor AdminServer {
    private typealias Listener = NIOAsyncChannel<AcceptedConnection, Never>

    private enum State {
        case idle
        case bound(Listener, HTTP1Channel)
        case serving(any Channel)
        case closed
    }

    private let group: any EventLoopGroup
    private let options: AdminOptions
    private let logger: Logger
    private let prepare: @Sendable (any Channel) -> EventLoopFuture<Void>
    /// nil without TLS.
    private let security: AdminSecurity?
    private var state = State.idle
    /// Operators, probes and browsers, which keep some open.
    private let limit: ConnectionLimit

    /// - Parameters:
    ///   - connections: How many may be open; the oldest gives way to the next.
    ///   - security: nil without TLS.
    ///   - prepare: Adds to the listener's channel what every listener of the program has.
    init(
        group: any EventLoopGroup,
        options: AdminOptions,
        connections: Int = DescriptorShares.adminConnections(of: nil),
        logger: Logger,
        security: AdminSecurity? = nil,
        prepare: @escaping @Sendable (any Channel) -> EventLoopFuture<Void> = { $0.eventLoop.makeSucceededVoidFuture() }
    ) {
        self.prepare = prepare
        limit = ConnectionLimit(connections)
        self.security = security
        self.group = group
        self.options = options
        self.logger = logger
    }

    /// Takes the address. Clients wait in the backlog until ``run()``.
    ///
    /// - Returns: The port, which is the system's choice when `port` is 0.
    /// - Throws: The system's error, for example `EADDRINUSE`.
    func bind(host: String, port: Int) async throws -> Int {
        let connection = makeConnection(host: host)
        let logger = logger
        let listener =
            try await bootstrap()
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .bind(host: host, port: port) { [limit, security] channel in
                limit.admit(channel)
                let secured = security?.secure(channel) ?? channel.eventLoop.makeSucceededVoidFuture()
                return secured.flatMap { connection.setup(channel: channel, logger: logger) }
                    .map(AcceptedConnection.init)
            }
        state = .bound(listener, connection)
        return listener.channel.localAddress?.port ?? port
    }

    /// Clients that may wait to be accepted.
    static let backlog: Int32 = 64

    /// Takes a unix socket that is bound already; the caller sees to the file.
    ///
    /// - Parameter admits: Whether the peer may connect.
    /// - Throws: The system's error.
    func serve(
        _ socket: NIOBSDSocket.Handle,
        admits: @escaping @Sendable (any Channel) -> EventLoopFuture<Bool>
    ) async throws {
        let connection = makeConnection(host: nil)
        let logger = logger
        let listener = try await bootstrap().bind(socket) { [limit] channel in
            admits(channel).flatMap { isAdmitted -> EventLoopFuture<AcceptedConnection> in
                guard isAdmitted else {
                    channel.close(promise: nil)
                    return channel.eventLoop.makeFailedFuture(PeerRefused())
                }
                // A peer that may not connect must not close the connection of another.
                limit.admit(channel)
                return connection.setup(channel: channel, logger: logger).map(AcceptedConnection.init)
            }
        }
        state = .bound(listener, connection)
    }

    private nonisolated func bootstrap() -> sending ServerBootstrap {
        ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: Self.backlog)
            .serverChannelInitializer(prepare)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
    }

    /// Serves until ``close()`` or cancellation.
    func run() async {
        guard case .bound(let listener, let connection) = state else { return }
        state = .serving(listener.channel)
        let (logger, options) = (logger, options)
        await withDiscardingTaskGroup { connections in
            if options.feedsBroadcaster {
                connections.addTask {
                    if let past = await options.past() { options.broadcaster.begin(with: past) }
                }
                connections.addTask { await options.broadcaster.run(options.requests) }
            }
            do {
                try await listener.executeThenClose { inbound in
                    for try await channel in inbound {
                        connections.addTask { await connection.handle(value: channel.take(), logger: logger) }
                    }
                }
            } catch {
                logger.debug("Admin listener ended", metadata: ["error": "\(type(of: error))"])
            }
            // An idle keep-alive connection must not hold up the stop.
            connections.cancelAll()
        }
        state = .closed
    }

    /// Stops listening; a request under way is answered.
    func close() async {
        options.broadcaster.close()
        switch state {
        case .bound(let listener, _):
            state = .closed
            try? await listener.executeThenClose { _ in }
        case .serving(let channel):
            try? await channel.close()
        case .idle, .closed:
            break
        }
    }

    private nonisolated func makeConnection(host: String?) -> HTTP1Channel {
        let service = AdminService(
            guardian: AdminRequestGuard(host: host, isTLS: security != nil),
            responder: AdminResponder(options),
            options: options,
            security: security,
            logger: logger
        )
        return HTTP1Channel(
            responder: { request, writer, channel in
                let response = await service.respond(to: request, on: channel)
                try await writer.write(response: response.head, body: response.body)
            },
            configuration: .init(
                idleTimeout: .seconds(60),
                httpDecoderConfiguration: .init(
                    maxHeaderFieldSize: 16 << 10,
                    maxHeaderListSize: 32 << 10,
                    maxHeaderFieldCount: 100
                )
            )
        )
    }
}

/// The router, made for the first request: with the declarations of all resources it would take a sixth of the time from the start of
/// the gateway to its first request.
private final class AdminResponder: HTTPResponder {
    private final class Made: Sendable {
        let router: RouterResponder<AdminContext>

        init(_ router: RouterResponder<AdminContext>) { self.router = router }
    }

    private let options: AdminOptions
    private let made = AtomicLazyReference<Made>()

    init(_ options: AdminOptions) { self.options = options }

    func respond(to request: Request, context: AdminContext) async throws -> Response {
        // Two requests at the same moment may both make it; one of them is kept.
        let made = made.load() ?? made.storeIfNil(Made(AdminRouteTable.router(options).buildResponder()))
        return try await made.router.respond(to: request, context: context)
    }
}

/// Who connected to the unix socket may not.
private struct PeerRefused: Error {}

/// TLS of the admin listener, given as closures so that it knows none of its neighbours.
struct AdminSecurity: Sendable {
    /// Adds TLS to a connection that was accepted.
    let secure: @Sendable (any Channel) -> EventLoopFuture<Void>
    /// Who is at the other end, by the certificate; nil without one.
    let peer: @Sendable (any Channel) async -> PeerIdentity?
}
