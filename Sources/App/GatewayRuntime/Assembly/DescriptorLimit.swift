import GatewayCore
import Logging

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// How many descriptors the process may have. A connection that is proxied takes two.
enum DescriptorLimit {
    /// Files, pipes, listeners, and what libraries open for themselves.
    private static let reserve = 128

    /// Raises the limit as far as the system lets everybody, and warns where `limits.connections` is beyond it.
    static func raise(for limits: Limits, logger: Logger) {
        var limit = rlimit()
        guard unsafe getrlimit(resource, &limit) == 0 else { return }
        let most = min(limit.rlim_max, highest)
        if limit.rlim_cur < most {
            var raised = limit
            raised.rlim_cur = most
            if unsafe setrlimit(resource, &raised) == 0 { limit = raised }
        }
        let needed = 2 * limits.connections + reserve
        guard limit.rlim_cur < rlim_t(needed) else { return }
        logger.warning(
            "limits.connections is more than the limit of descriptors has room for",
            metadata: [
                "gateway.connections": "\(limits.connections)", "gateway.descriptors": "\(limit.rlim_cur)",
                "gateway.advice": "raise LimitNOFILE (ulimit -n) to \(needed), or lower limits.connections",
            ]
        )
    }

    #if canImport(Darwin)
        private static let resource = RLIMIT_NOFILE
        /// More is refused.
        private static let highest = rlim_t(OPEN_MAX)
    #else
        private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        private static let highest = rlim_t.max
    #endif
}
