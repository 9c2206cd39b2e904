/// The open sockets that a service manager passes to a process (sd_listen_fds(3)).
package enum PassedDescriptors {
    /// The first is always this one.
    private static let first: Int32 = 3
    private static let maximumCount: Int32 = 64

    /// - Parameters:
    ///   - environment: `LISTEN_PID` and `LISTEN_FDS` count.
    ///   - process: The number of this process: what was passed to another one is not ours.
    /// - Returns: The descriptors; empty when none were passed.
    package static func range(environment: [String: String], process: Int32) -> Range<Int32> {
        guard environment["LISTEN_PID"].flatMap({ Int32($0) }) == process,
            let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), (1...maximumCount).contains(count)
        else { return first..<first }
        return first..<first + count
    }
}
