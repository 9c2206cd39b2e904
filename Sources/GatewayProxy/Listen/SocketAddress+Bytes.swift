import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

extension SocketAddress {
    /// The 4 or 16 bytes of an IP address in network order; nil for a unix socket.
    var ipBytes: [UInt8]? {
        var storage = sockaddr_storage()
        switch self {
        case .v4, .v6:
            let text = ipAddress ?? ""
            let family = self.protocol == .inet ? AF_INET : AF_INET6
            let count = self.protocol == .inet ? 4 : 16
            return unsafe withUnsafeMutableBytes(of: &storage) { bytes in
                guard unsafe inet_pton(family, text, bytes.baseAddress) == 1 else { return nil }
                return unsafe Array(bytes.prefix(count))
            }
        case .unixDomainSocket: return nil
        }
    }
}
