import GatewayFiles
import GatewayHTTP
package import NIOCore
import NIOPosix

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Listening on a unix socket: whose file it is, what may be in its way, and who may connect.
package enum UnixSocket {
    /// - Parameters:
    ///   - isShared: Other users are listed: the file lets everybody connect, and the peer's uid decides.
    ///   - backlog: Clients that may wait to be accepted.
    ///   - serve: Begins to listen on the socket, which is bound to `path`, and owns it from then on.
    /// - Throws: ``ListenerError`` when the path cannot be used, the system's error, and what `serve` throws.
    package static func bind<Bound>(
        _ path: String,
        isShared: Bool,
        backlog: Int32,
        _ serve: (NIOBSDSocket.Handle) async throws -> Bound
    ) async throws -> Bound {
        guard path.utf8.count < 108 else { throw ListenerError("unix:\(path): the path is longer than 107 bytes") }
        try removeStale(path)
        let descriptor = try bound(to: path)
        // No client can connect before the socket listens, so the file's mode applies to the first client.
        permit(path, isShared: isShared)
        let served = try await serve(descriptor)
        // The event loop has its own idea of how many may wait; the system takes the last word.
        _ = listen(descriptor, backlog)
        return served
    }

    private static func bound(to path: String) throws -> NIOBSDSocket.Handle {
        let address = try SocketAddress(unixDomainSocketPath: path)
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw IOError(errnoCode: errno, reason: "socket") }
        let status = unsafe address.withSockAddr { pointer, size in
            unsafe systemBind(descriptor, pointer, socklen_t(size))
        }
        guard status == 0 else {
            let error = IOError(errnoCode: errno, reason: "bind")
            _ = close(descriptor)
            throw error
        }
        return descriptor
    }

    static func permit(_ path: String, isShared: Bool) { unsafe chmod(path, isShared ? 0o666 : 0o600) }

    package static func remove(_ path: String) { unsafe unlink(path) }

    /// Whether the peer is this process's own user or one of `users`.
    package static func admits(_ channel: any Channel, users: [UInt32]) -> EventLoopFuture<Bool> {
        peerUser(channel).map { user in
            guard let user else { return false }
            return PeerUserRule.admits(user, own: geteuid(), allowed: users, mapsAllUsers: mapsAllUsers)
        }
    }

    /// A process does not leave its user namespace.
    private static let mapsAllUsers: Bool = {
        let file = try? BoundedFile.read("/proc/self/uid_map", limit: 64 << 10)
        return PeerUserRule.mapsAllUsers(file.map { String(decoding: $0.bytes, as: UTF8.self) })
    }()

    /// Removes the socket that a killed gateway left behind; anything else at that path stays.
    private static func removeStale(_ path: String) throws {
        var information = stat()
        guard unsafe lstat(path, &information) == 0 else { return }
        guard information.st_mode & S_IFMT == S_IFSOCK else {
            throw ListenerError("unix:\(path): a file that is not a socket is in the way")
        }
        switch try connectionError(path) {
        case ECONNREFUSED: unsafe unlink(path)
        // It was removed meanwhile.
        case ENOENT: break
        // None, or as many wait as its owner lets wait.
        case 0, EAGAIN, EINPROGRESS: throw ListenerError("unix:\(path): another process listens there")
        case let error:
            let reason = IOError(errnoCode: error, reason: "connect").reasonDescription
            throw ListenerError("unix:\(path): cannot find out whether another process listens there: \(reason)")
        }
    }

    package enum Occupation: Hashable, Sendable {
        case free
        case taken
        /// What the system said.
        case unusable(String)
    }

    /// Whether a gateway could listen at `path`. Nothing is made and nothing is removed.
    package static func occupation(of path: String) -> Occupation {
        guard path.utf8.count < 108 else { return .unusable("the path is longer than 107 bytes") }
        let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        var information = stat()
        guard unsafe lstat(path, &information) == 0 else {
            guard let problem = FileStatus.writeProblem(folder.isEmpty ? "/" : folder) else { return .free }
            return .unusable("\(folder): \(problem)")
        }
        guard information.st_mode & S_IFMT == S_IFSOCK else {
            return .unusable("a file that is not a socket is in the way")
        }
        switch try? connectionError(path) {
        case ECONNREFUSED?, ENOENT?: return .free
        default: return .taken
        }
    }

    /// - Returns: What the system says to who connects; 0 when it connects. It never waits for the other process.
    private static func connectionError(_ path: String) throws -> CInt {
        let flags = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let descriptor = socket(AF_UNIX, Int32(flags), 0)
        guard descriptor >= 0 else { throw IOError(errnoCode: errno, reason: "socket") }
        defer { _ = close(descriptor) }
        let address = try SocketAddress(unixDomainSocketPath: path)
        return unsafe address.withSockAddr { pointer, size in
            unsafe connect(descriptor, pointer, socklen_t(size)) == 0 ? 0 : errno
        }
    }

    /// The user at the other end; nil if the system does not say.
    package static func peerUser(_ channel: any Channel) -> EventLoopFuture<UInt32?> {
        guard let provider = channel as? any SocketOptionProvider else {
            return channel.eventLoop.makeSucceededFuture(nil)
        }
        let credentials: EventLoopFuture<PeerCredentials> = provider.unsafeGetSocketOption(
            level: .socket,
            name: NIOBSDSocket.Option(rawValue: SO_PEERCRED)
        )
        return credentials.map { Optional($0.user) }.flatMapErrorThrowing { _ in nil }
    }
}

/// bind(2), whose name ``UnixSocket`` has for itself.
private func systemBind(_ descriptor: Int32, _ address: UnsafePointer<sockaddr>, _ size: socklen_t) -> Int32 {
    unsafe bind(descriptor, address, size)
}

/// `struct ucred` of socket(7), which the C library's module does not show.
private struct PeerCredentials: Sendable {
    var process: Int32 = 0
    var user: UInt32 = 0
    var group: UInt32 = 0
}
