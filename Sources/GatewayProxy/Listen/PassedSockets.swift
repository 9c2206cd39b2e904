import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Listening TCP sockets that a service manager has opened for this process. A listener whose address is that of such a socket
/// accepts from it and binds nothing, so a port below 1024 needs no privilege, and clients wait while the gateway restarts.
package struct PassedSockets: Sendable {
    private struct Socket: Sendable {
        let descriptor: NIOBSDSocket.Handle
        let address: SocketAddress
    }

    private let sockets: [Socket]

    package static let none = PassedSockets(sockets: [])

    private init(sockets: [Socket]) { self.sockets = sockets }

    /// - Parameter descriptors: As ``PassedDescriptors`` says; programs that the gateway runs do not get them.
    /// - Throws: ``ListenerError`` for one that is no listening TCP socket.
    package init(_ descriptors: Range<Int32>) throws(ListenerError) {
        var sockets: [Socket] = []
        for descriptor in descriptors {
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            guard Self.isListening(descriptor), let address = Self.address(of: descriptor) else {
                throw ListenerError(
                    "the service manager passes descriptor \(descriptor), which is not a listening TCP socket; "
                        + "use ListenStream=ADDRESS:PORT in the socket unit"
                )
            }
            sockets.append(Socket(descriptor: descriptor, address: address))
        }
        self.sockets = sockets
    }

    /// - Returns: A descriptor of its own for the socket with this address, which the caller closes; nil when none has it.
    func duplicate(host: String, port: Int) throws -> NIOBSDSocket.Handle? {
        guard let socket = sockets.first(where: { Self.matches($0.address, host, port) }) else { return nil }
        let descriptor = fcntl(socket.descriptor, F_DUPFD_CLOEXEC, 0)
        guard descriptor >= 0 else { throw IOError(errnoCode: errno, reason: "dup") }
        return descriptor
    }

    /// - Throws: ``ListenerError`` when no listener has the address of a socket: its clients would wait for ever.
    func requireUse(by listeners: [ListenerPlan]) throws(ListenerError) {
        for socket in sockets {
            let isUsed = listeners.contains { listener in
                guard case .tcp(let host, let port) = listener.address else { return false }
                return Self.matches(socket.address, host, port)
            }
            guard !isUsed else { continue }
            let host = socket.address.ipAddress ?? ""
            let place = "\(host.contains(":") ? "[\(host)]" : host):\(socket.address.port ?? 0)"
            throw ListenerError(
                "the service manager passes a socket at \(place), which no listener has; "
                    + "add `- address: \"\(place)\"` to listeners.proxy, or change ListenStream= in the socket unit"
            )
        }
    }

    private static func matches(_ address: SocketAddress, _ host: String, _ port: Int) -> Bool {
        guard address.port == port, let wanted = try? SocketAddress(ipAddress: host, port: port) else { return false }
        return address.ipBytes == wanted.ipBytes
    }

    private static func isListening(_ descriptor: NIOBSDSocket.Handle) -> Bool {
        option(SO_ACCEPTCONN, of: descriptor) == 1 && option(SO_TYPE, of: descriptor) == streamType
    }

    #if canImport(Darwin)
        private static let streamType = SOCK_STREAM
    #else
        private static let streamType = Int32(SOCK_STREAM.rawValue)
    #endif

    private static func option(_ name: Int32, of descriptor: NIOBSDSocket.Handle) -> Int32? {
        var value: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        return unsafe getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
    }

    /// nil for what is not a socket of IP.
    private static func address(of descriptor: NIOBSDSocket.Handle) -> SocketAddress? {
        var storage = sockaddr_storage()
        return unsafe withUnsafeMutablePointer(to: &storage) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
                guard unsafe getsockname(descriptor, generic, &size) == 0 else { return nil }
                switch Int32(unsafe generic.pointee.sa_family) {
                case AF_INET:
                    return unsafe generic.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { address in
                        unsafe SocketAddress(address.pointee)
                    }
                case AF_INET6:
                    return unsafe generic.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { address in
                        unsafe SocketAddress(address.pointee)
                    }
                default: return nil
                }
            }
        }
    }
}
