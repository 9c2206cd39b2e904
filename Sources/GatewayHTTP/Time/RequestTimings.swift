/// When a request had what it needed, as time since it began. Of a request that was sent twice, that of the second try.
///
/// In the event loop's clock, which is read once for all bytes of one read.
package struct RequestTimings: Hashable, Sendable {
    package enum Step: Sendable {
        /// The credential is at hand, or none is needed.
        case credential
        /// A connection to the upstream is at hand, its TLS handshake included.
        case connection
        /// The head of the final response has come.
        case response
    }

    // Nanoseconds; negative where it has not happened.
    private var credentialAfter: Int64 = -1
    private var connectionAfter: Int64 = -1
    private var responseAfter: Int64 = -1

    package init() {}

    package mutating func reached(_ step: Step, after nanoseconds: Int64) {
        let nanoseconds = max(0, nanoseconds)
        switch step {
        case .credential:
            credentialAfter = nanoseconds
            (connectionAfter, responseAfter) = (-1, -1)
        case .connection:
            connectionAfter = nanoseconds
            responseAfter = -1
        case .response: responseAfter = nanoseconds
        }
    }

    package var credential: Duration? { Self.duration(credentialAfter) }
    package var connection: Duration? { Self.duration(connectionAfter) }
    package var response: Duration? { Self.duration(responseAfter) }

    private static func duration(_ nanoseconds: Int64) -> Duration? {
        nanoseconds < 0 ? nil : .nanoseconds(nanoseconds)
    }
}
