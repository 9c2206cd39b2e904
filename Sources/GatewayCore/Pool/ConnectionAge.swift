/// When a connection takes no more requests (`limits.connection_max_age`).
package enum ConnectionAge {
    /// - Parameter jitter: A random number. It takes up to a tenth off the life of the connection, so that those which were
    ///   opened together do not end together.
    package static func end(_ maximum: Duration, jitter: UInt64, from now: MonotonicTime) -> MonotonicTime {
        now + maximum - maximum / 10 * Int(jitter & 1023) / 1024
    }
}
