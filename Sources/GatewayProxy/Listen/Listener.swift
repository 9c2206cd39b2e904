import GatewayFiles
import GatewayHTTP
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A listener that is bound: what a reload may change while it stays open is read for each new connection.
final class Listener: Sendable {
    /// What is taken from the system: of two listeners with the same endpoint only one can be bound.
    enum Endpoint: Hashable {
        /// `isIPv6Only` holds where another listener has the port for all addresses of IPv4. It cannot change on a bound socket.
        case tcp(host: String, port: Int, isIPv6Only: Bool)
        case unix(path: String)

        /// - Parameter others: The addresses of all listeners that are wanted.
        init(_ plan: ListenerPlan, beside others: [ListenerPlan.Address]) {
            switch plan.address {
            case .tcp(let host, let port):
                let isIPv6Only = others.contains { plan.address.isForIPv6(beside: $0) }
                self = .tcp(host: host, port: port, isIPv6Only: isIPv6Only)
            case .unix(let path, _): self = .unix(path: path)
            }
        }
    }

    /// What connections are accepted with.
    struct Settings: Sendable {
        let plan: ListenerPlan
        let tls: NIOSSLContext?
        /// The authorities that clients' certificates come from: what the file held, which may be replaced.
        private let clientCAs: [NIOSSLCertificate]?
        /// nil on unix sockets.
        let keepAlive: KeepAlive?
        /// Changes when connections that were accepted before must not go on.
        var number: Int

        /// - Throws: ``ListenerError`` when a certificate or key cannot be used.
        init(_ plan: ListenerPlan, _ limits: Limits) throws(ListenerError) {
            self.plan = plan
            keepAlive = if case .tcp = plan.address { KeepAlive(limits) } else { nil }
            do throws(UnusableInput) {
                let clientCAs = try plan.tls?.clientCAPath.map(TLSFiles.certificates)
                self.clientCAs = clientCAs
                tls = try plan.tls.map { (tls) throws(UnusableInput) in try TLSFiles.serverContext(tls, clientCAs) }
            } catch {
                throw ListenerError(
                    "\(plan.engine == nil ? "listeners.proxy" : "listeners.authz"): the TLS settings cannot be used: \(error.message)"
                )
            }
            number = Self.lastNumber.add(1, ordering: .relaxed).newValue
        }

        /// The peers' uids that may connect to a unix socket besides our own; nil on TCP.
        var users: [UInt32]? {
            if case .unix(_, let users) = plan.address { users } else { nil }
        }

        /// Whether `other` admits each client that these settings admit, as far as the listener decides that.
        func admitsLike(_ other: Settings) -> Bool {
            plan.address == other.plan.address && plan.speaksTLS == other.plan.speaksTLS
                && plan.usesLocalAuthority == other.plan.usesLocalAuthority
                && plan.intercepts == other.plan.intercepts && plan.publicURL == other.plan.publicURL
                && clientCAs == other.clientCAs
        }

        private static let lastNumber = Atomic<Int>(0)
    }

    let endpoint: Endpoint
    /// Several for `localhost`, which has an address of each family.
    private let channels: [any Channel]
    private let settings: Mutex<Settings>

    private init(endpoint: Endpoint, channels: [any Channel], settings: Settings) {
        self.endpoint = endpoint
        self.channels = channels
        self.settings = Mutex(settings)
    }

    var number: Int { current.number }
    var plan: ListenerPlan { current.plan }
    var current: Settings { settings.withLock { $0 } }

    var bound: BoundListener {
        BoundListener(plan, boundPort: port)
    }

    private var port: Int? { channels.first?.localAddress?.port }

    /// Accepts with `new` from now on.
    ///
    /// - Returns: The number of the connections that must not go on; nil when all may.
    func change(to new: Settings) -> Int? {
        let outdated: Int? = settings.withLock { settings in
            var new = new
            let admitsAlike = settings.admitsLike(new)
            if admitsAlike { new.number = settings.number }
            defer { settings = new }
            if let keepAlive = new.keepAlive, keepAlive != settings.keepAlive {
                for channel in channels { channel.eventLoop.execute { try? keepAlive.set(on: channel) } }
            }
            return admitsAlike ? nil : settings.number
        }
        if case .unix(let path) = endpoint { UnixSocket.permit(path, isShared: !(new.users ?? []).isEmpty) }
        return outdated
    }

    func stop() async {
        for channel in channels { try? await channel.close() }
        if case .unix(let path) = endpoint { UnixSocket.remove(path) }
    }

    /// - Parameters:
    ///   - batch: How many connections it accepts before those are read.
    static func bind(
        _ settings: Settings,
        at endpoint: Endpoint,
        passed: PassedSockets,
        group: MultiThreadedEventLoopGroup,
        workers: WorkerRegistry,
        descriptorLimit: Int?,
        batch: Int,
        logger: Logger
    ) async throws -> Listener {
        let box = NIOLockedValueBox<Listener?>(nil)
        let bootstrap = bootstrap(
            group: group,
            workers: workers,
            descriptorLimit: descriptorLimit,
            batch: batch,
            settings.keepAlive,
            logger: logger
        ) {
            box.withLockedValue { $0 }
        }
        let channels: [any Channel]
        switch endpoint {
        case .tcp(let host, let port, let isIPv6Only):
            do {
                if let descriptor = try passed.duplicate(host: host, port: port) {
                    channels = [try await bootstrap.withBoundSocket(descriptor).get()]
                } else {
                    // A socket that was passed is bound already, and the system refuses this.
                    if isIPv6Only {
                        let option = ChannelOptions.Types.SocketOption(level: .ipv6, name: .ipv6_v6only)
                        _ = bootstrap.serverChannelOption(option, value: 1)
                    }
                    channels = try await bind(ListenerPlan.Address.addresses(of: host), port: port, bootstrap)
                }
            } catch {
                throw ListenerError(Self.message(error, "\(host):\(port)"))
            }
        case .unix(let path):
            do {
                let isShared = !(settings.users ?? []).isEmpty
                let channel = try await UnixSocket.bind(path, isShared: isShared, backlog: backlog) {
                    try await bootstrap.withBoundSocket($0).get()
                }
                channels = [channel]
            } catch {
                throw (error as? ListenerError) ?? ListenerError(Self.message(error, "unix:\(path)"))
            }
        }
        let listener = Listener(endpoint: endpoint, channels: channels, settings: settings)
        // Nothing is accepted before it is told to.
        box.withLockedValue { $0 = listener }
        return listener
    }

    /// - Parameter hosts: All get the port of the first, where the system chooses that.
    private static func bind(_ hosts: [String], port: Int, _ bootstrap: ServerBootstrap) async throws -> [any Channel] {
        var bound: [any Channel] = []
        for host in hosts {
            do {
                let port = bound.first?.localAddress?.port ?? port
                bound.append(try await bootstrap.bind(host: host, port: port).get())
            } catch {
                // The machine has no IPv6.
                let hasNone = [EADDRNOTAVAIL, EAFNOSUPPORT].contains((error as? IOError)?.errnoCode)
                if hasNone, !bound.isEmpty { break }
                for channel in bound { try? await channel.close() }
                throw error
            }
        }
        return bound
    }

    /// Begins to accept.
    func start() {
        for channel in channels { channel.setOption(.autoRead, value: true).whenSuccess { channel.read() } }
    }

    private static let backlog: Int32 = 4096

    private static func bootstrap(
        group: MultiThreadedEventLoopGroup,
        workers: WorkerRegistry,
        descriptorLimit: Int?,
        batch: Int,
        _ keepAlive: KeepAlive?,
        logger: Logger,
        _ listener: @escaping @Sendable () -> Listener?
    ) -> ServerBootstrap {
        let ceiling = DescriptorShares.ceiling(of: descriptorLimit)
        return ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: backlog)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.autoRead, value: false)
            .serverChannelOption(.maxMessagesPerRead, value: UInt(batch))
            .serverChannelInitializer { channel in
                AcceptPause.add(to: channel, logger: logger, ceiling: ceiling) { workers.tell { $0.closeIdle() } }
                    .flatMapThrowing { try keepAlive?.set(on: channel) }
            }
            .childChannelInitializer { channel in
                guard let listener = listener(), let options = channel.syncOptions else { return channel.close() }
                let settings = listener.settings.withLock { $0 }
                do {
                    try setOptions(options, isUnix: keepAlive == nil)
                } catch {
                    return channel.eventLoop.makeFailedFuture(error)
                }
                guard let users = settings.users else { return listener.addHandlers(channel, settings, workers) }
                return UnixSocket.admits(channel, users: users).flatMap { isAdmitted in
                    isAdmitted ? listener.addHandlers(channel, settings, workers) : channel.close()
                }
            }
    }

    /// Sets the options directly: the bootstrap takes a future for each.
    private static func setOptions(_ options: any NIOSynchronousChannelOptions, isUnix: Bool) throws {
        try options.setOption(.allowRemoteHalfClosure, value: true)
        try options.setOption(
            .recvAllocator,
            value: AdaptiveRecvByteBufferAllocator(minimum: 1024, initial: 2048, maximum: 131_072)
        )
        try options.setOption(.writeBufferWaterMark, value: .init(low: 32_768, high: 131_072))
        if !isUnix { try options.setOption(.tcpOption(.tcp_nodelay), value: 1) }
    }

    private func addHandlers(
        _ channel: any Channel,
        _ settings: Settings,
        _ workers: WorkerRegistry
    ) -> EventLoopFuture<Void> {
        let connectionContext = BoundListener(settings.plan, boundPort: port).connectionContext
        return channel.eventLoop.makeCompletedFuture {
            guard let configuration = workers.configuration(of: channel.eventLoop) else {
                throw ListenerError("the connection belongs to no event loop of the gateway")
            }
            guard !settings.plan.usesLocalAuthority else {
                return try TLSHello.add(to: channel, configuration, connectionContext, listenerNumber: settings.number)
            }
            let tls = settings.tls.map { NIOSSLServerHandler(context: $0) }
            let handler = HTTP1ClientConnection(
                configuration: configuration,
                connectionContext: connectionContext,
                listenerNumber: settings.number,
                hasDirectSocket: tls == nil,
                peerCertificate: tls.flatMap { PeerCertificate(settings.plan.tls, $0) }
            )
            if let tls { try channel.pipeline.syncOperations.addHandler(tls) }
            try channel.pipeline.syncOperations.addHandler(handler)
        }
    }

    // MARK: Messages

    private static func message(_ error: any Error, _ address: String) -> String {
        guard let error = error as? IOError else { return "cannot listen on \(address): \(error)" }
        switch error.errnoCode {
        case EADDRINUSE:
            let port = address.split(separator: ":").last.flatMap { UInt16($0) }
            let command = port.map { " (ss -ltnp 'sport = :\($0)' shows it)" } ?? ""
            return
                "cannot listen on \(address): the port is in use. Stop the other program\(command) or change listeners."
        case EACCES:
            return "cannot listen on \(address): permission denied. Ports below 1024 need CAP_NET_BIND_SERVICE."
        case EADDRNOTAVAIL:
            return "cannot listen on \(address): this machine does not have that address."
        case ENOENT:
            return "cannot listen on \(address): its folder does not exist."
        default:
            return "cannot listen on \(address): \(error.reasonDescription)"
        }
    }
}

extension IOError {
    var reasonDescription: String { SystemError.text(errnoCode) }
}
