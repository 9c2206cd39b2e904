import GatewayProxy
package import GatewayTokens
import HTTPTypes
import Hummingbird
import HummingbirdCore
package import Logging
package import NIOCore
import NIOPosix

/// Waits on loopback for the one redirect that ends a login in a browser (RFC 8252 §7.3); gone when the login is over.
package actor RedirectListener {
    private typealias Listener = NIOAsyncChannel<AcceptedConnection, Never>

    /// A browser may keep a connection open that it never uses.
    private static let idleTimeout: TimeAmount = .seconds(5)

    private let group: any EventLoopGroup
    private let redirect: LoopbackRedirect
    private let logger: Logger
    private let deliver: @Sendable (_ address: String) async -> LoginProgress
    private var listener: Listener?
    private var channel: HTTP1Channel?
    private var port = 0
    /// The path that leads to the authorization server's page, once.
    private var start: (path: String, page: String)?
    private var isOver = false

    /// - Parameter deliver: Called with the whole address that the browser was sent to, until the login is over. What it
    ///   returns then ends the listener.
    package init(
        group: any EventLoopGroup,
        redirect: LoopbackRedirect,
        logger: Logger,
        deliver: @escaping @Sendable (_ address: String) async -> LoginProgress
    ) {
        self.group = group
        self.redirect = redirect
        self.logger = logger
        self.deliver = deliver
    }

    /// Takes the address.
    ///
    /// - Returns: The port.
    /// - Throws: The system's error, for example `EADDRINUSE`.
    package func bind() async throws -> Int {
        let connection = makeConnection()
        let logger = logger
        let limit = ConnectionLimit(16)
        let listener = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 16)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .bind(host: redirect.address, port: redirect.port ?? 0) { channel in
                limit.admit(channel)
                return connection.setup(channel: channel, logger: logger).map(AcceptedConnection.init)
            }
        self.listener = listener
        channel = connection
        port = listener.channel.localAddress?.port ?? 0
        return port
    }

    /// Makes a path of this listener lead to `page`; the first who asks for it is sent there.
    ///
    /// - Parameter token: Random, so that others cannot guess it.
    package func offer(_ page: String, as token: String) -> String {
        let path = "/start/\(token)"
        start = (path, page)
        return "http://\(redirect.authority(port: port))\(path)"
    }

    /// Serves until the answer has come and is acknowledged, or until ``close()``.
    package func run() async {
        guard let listener, let channel else { return }
        let logger = logger
        await withDiscardingTaskGroup { connections in
            do {
                try await listener.executeThenClose { inbound in
                    for try await value in inbound {
                        connections.addTask { await channel.handle(value: value.take(), logger: logger) }
                    }
                }
            } catch {
                logger.debug("Redirect listener ended", metadata: ["error": "\(type(of: error))"])
            }
        }
    }

    package func close() async {
        try? await listener?.channel.close()
    }

    private nonisolated func makeConnection() -> HTTP1Channel {
        HTTP1Channel(
            responder: { request, writer, _ in
                let (response, isLast) = await self.respond(to: request)
                // First: the browser may have left meanwhile, and then nothing can be written.
                if isLast { await self.close() }
                try await writer.write(response: response.head, body: response.body)
            },
            configuration: .init(
                idleTimeout: Self.idleTimeout,
                httpDecoderConfiguration: .init(
                    maxHeaderFieldSize: 32 << 10,
                    maxHeaderListSize: 48 << 10,
                    maxHeaderFieldCount: 100
                )
            )
        )
    }

    private func respond(to request: Request) async -> (Response, isLast: Bool) {
        // A page that rebinds its own name to loopback says so here (RFC 9110 §7.2).
        guard request.head.authority?.lowercased() == redirect.authority(port: port) else {
            return (LoginPage.refusal(.misdirectedRequest), false)
        }
        guard request.method == .get else { return (LoginPage.refusal(.methodNotAllowed), false) }
        let target = request.head.path ?? "/"
        let path = String(target.prefix { $0 != "?" })
        if let start, path == start.path {
            self.start = nil
            return (LoginPage.redirect(to: start.page), false)
        }
        guard path == (redirect.path.isEmpty ? "/" : redirect.path), path.count < target.count else {
            return (LoginPage.refusal(.notFound), false)
        }
        let address =
            redirect.uri(port: port) + (redirect.path.isEmpty ? target.dropFirst() : target.dropFirst(path.count))
        guard !isOver else { return (LoginPage.answered, false) }
        let progress = await deliver(address)
        isOver = progress.isOver
        return (LoginPage.outcome(progress), progress.isOver)
    }
}
