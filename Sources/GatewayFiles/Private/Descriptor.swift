#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// Open files, pipes, terminals and sockets: how many there may be, and writing to them.
package enum Descriptor {
    /// Raises the limit of the process as far as the system lets everybody.
    ///
    /// - Returns: How many descriptors the process may have now; nil where the system does not say.
    package static func raiseLimit() -> Int? {
        var limit = rlimit()
        guard unsafe getrlimit(resource, &limit) == 0 else { return nil }
        let most = min(limit.rlim_max, highest)
        if limit.rlim_cur < most {
            var raised = limit
            raised.rlim_cur = most
            if unsafe setrlimit(resource, &raised) == 0 { limit = raised }
        }
        return Int(clamping: limit.rlim_cur)
    }

    /// The number that the next one would have; nil where there is none left.
    package static var next: Int32? {
        let descriptor = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)
        guard descriptor >= 0 else { return errno == EBADF ? 0 : nil }
        _ = close(descriptor)
        return descriptor
    }

    #if canImport(Darwin)
        private static let resource = RLIMIT_NOFILE
        /// More is refused.
        private static let highest = rlim_t(OPEN_MAX)
    #else
        private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        private static let highest = rlim_t.max
    #endif

    /// Writes everything, or says that it could not. Waits when the other end does not take it yet.
    package static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN {
                var descriptor = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                guard unsafe poll(&descriptor, 1, -1) >= 0 || errno == EINTR else { return false }
                continue
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}

/// What the system says about a call that failed.
package enum SystemError {
    /// The text of `errno`.
    package static func text() -> String { text(errno) }

    package static func text(_ code: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard unsafe strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
