import GatewayCore
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import NIOSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Binds one listener of the plan.
enum Listener {
    static func bind(
        _ plan: ListenerPlan,
        group: MultiThreadedEventLoopGroup,
        lanes: LaneDirectory
    ) async throws -> any Channel {
        let tls = try plan.tls.map { try serverContext($0) }
        switch plan.address {
        case .tcp(let host, let port):
            let identityPort = BoundPort()
            let bootstrap = bootstrap(plan, group: group, lanes: lanes, tls: tls, users: nil, port: identityPort)
            do {
                let channel = try await bootstrap.bind(host: host, port: port).get()
                identityPort.set(channel.localAddress?.port ?? port)
                return channel
            } catch {
                throw ListenerError(Self.message(error, "\(host):\(port)"))
            }
        case .unix(let path, let users):
            let bootstrap = bootstrap(plan, group: group, lanes: lanes, tls: tls, users: users, port: BoundPort())
            return try await bindUnix(path, isShared: !users.isEmpty, bootstrap)
        }
    }

    private static func bootstrap(
        _ plan: ListenerPlan,
        group: MultiThreadedEventLoopGroup,
        lanes: LaneDirectory,
        tls: NIOSSLContext?,
        users: [UInt32]?,
        port: BoundPort
    ) -> ServerBootstrap {
        ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 4096)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.autoRead, value: false)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(
                .recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(minimum: 2048, initial: 4096, maximum: 131_072)
            )
            .childChannelOption(.writeBufferWaterMark, value: .init(low: 32_768, high: 131_072))
            .childChannelInitializer { channel in
                let identity = ListenerIdentity(plan, boundPort: port.value)
                if users == nil {
                    _ = channel.setOption(.socketOption(.tcp_nodelay), value: 1)
                }
                guard let users else { return addHandlers(channel, identity, lanes, tls) }
                return peerUser(channel).flatMap { user in
                    guard let user, user == geteuid() || users.contains(user) else { return channel.close() }
                    return addHandlers(channel, identity, lanes, tls)
                }
            }
    }

    private static func addHandlers(
        _ channel: any Channel,
        _ identity: ListenerIdentity,
        _ lanes: LaneDirectory,
        _ tls: NIOSSLContext?
    ) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            guard let lane = lanes.lane(of: channel.eventLoop) else {
                throw ListenerError("the connection belongs to no event loop of the gateway")
            }
            if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
            try channel.pipeline.syncOperations.addHandler(DownstreamHandler(lane: lane, listener: identity))
        }
    }

    // MARK: TLS

    private static func serverContext(_ plan: ListenerPlan.TLS) throws -> NIOSSLContext {
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(plan.certificatePath)
            let key = try plan.privateKey.withValue { try NIOSSLPrivateKey(bytes: Array($0.utf8), format: .pem) }
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) },
                privateKey: .privateKey(key)
            )
            configuration.minimumTLSVersion = .tlsv12
            configuration.applicationProtocols = ["http/1.1"]
            if let path = plan.clientCAPath {
                configuration.trustRoots = .file(path)
                configuration.certificateVerification = .noHostnameVerification
            }
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw ListenerError("listeners.proxy: the TLS settings cannot be used: \(error)")
        }
    }

    // MARK: Unix sockets

    /// - Parameter isShared: Other users are listed: the file lets everybody connect, and the peer's uid decides.
    private static func bindUnix(
        _ path: String,
        isShared: Bool,
        _ bootstrap: ServerBootstrap
    ) async throws -> any Channel {
        guard path.utf8.count < 108 else { throw ListenerError("unix:\(path): the path is longer than 107 bytes") }
        try removeStaleSocket(path)
        // Between bind and chmod nobody else may connect: the mask applies to the socket file from its first instant.
        let mask = umask(isShared ? 0o111 : 0o177)
        defer { umask(mask) }
        do {
            return try await bootstrap.bind(unixDomainSocketPath: path).get()
        } catch {
            throw ListenerError(message(error, "unix:\(path)"))
        }
    }

    /// Removes the socket that a killed gateway left behind; anything else at that path stays.
    private static func removeStaleSocket(_ path: String) throws {
        var information = stat()
        guard unsafe lstat(path, &information) == 0 else { return }
        guard information.st_mode & S_IFMT == S_IFSOCK else {
            throw ListenerError("unix:\(path): something that is not a socket is in the way")
        }
        guard !isAnswered(path) else { throw ListenerError("unix:\(path): another process listens there") }
        unsafe unlink(path)
    }

    private static func isAnswered(_ path: String) -> Bool {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { _ = close(descriptor) }
        guard let address = try? SocketAddress(unixDomainSocketPath: path) else { return false }
        return unsafe address.withSockAddr { pointer, size in
            unsafe connect(descriptor, pointer, socklen_t(size)) == 0
        }
    }

    private static func peerUser(_ channel: any Channel) -> EventLoopFuture<UInt32?> {
        guard let provider = channel as? any SocketOptionProvider else {
            return channel.eventLoop.makeSucceededFuture(nil)
        }
        let credentials: EventLoopFuture<PeerCredentials> = provider.unsafeGetSocketOption(
            level: .socket,
            name: NIOBSDSocket.Option(rawValue: SO_PEERCRED)
        )
        return credentials.map { Optional($0.user) }.flatMapErrorThrowing { _ in nil }
    }

    // MARK: Messages

    private static func message(_ error: any Error, _ address: String) -> String {
        guard let error = error as? IOError else { return "cannot listen on \(address): \(error)" }
        switch error.errnoCode {
        case EADDRINUSE:
            return "cannot listen on \(address): the port is in use. Stop the other program or change listeners.proxy."
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
    fileprivate var reasonDescription: String {
        unsafe strerror(errnoCode).map { unsafe String(cString: $0) } ?? "error \(errnoCode)"
    }
}

/// `struct ucred` of socket(7), which the C library's module does not show.
private struct PeerCredentials: Sendable {
    var process: Int32 = 0
    var user: UInt32 = 0
    var group: UInt32 = 0
}

/// The port that was really bound; known only after the bootstrap's closures were made.
private final class BoundPort: Sendable {
    private let box = NIOLockedValueBox<Int?>(nil)
    var value: Int? { box.withLockedValue { $0 } }
    func set(_ port: Int) { box.withLockedValue { $0 = port } }
}
