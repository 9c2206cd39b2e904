/// What came of connecting to an upstream or an authorization server, for a person who looks for the fault.
package enum EndpointOutcome: Hashable, Sendable {
    /// Why nothing that can be used answered. Each has advice of its own.
    package enum Cause: Error, Hashable, Sendable {
        case nameUnknown
        case nameOverdue
        case nameProhibited
        case refused
        case overdue
        /// This process has no descriptors, memory or threads left.
        case exhausted
        /// The certificate is not trusted, or not for this name.
        case certificate(SeenCertificate?)
        /// The certificate is trusted, and its key is not among `tls.pin`.
        case wrongKey(String)
        /// The server refused the connection, and said why.
        case alert(TLSAlert)
        case handshake
        /// The proxy on the way did not open a connection. What happened, in one sentence.
        case proxy(String)
        /// Connected, and what came was no HTTP.
        case noHTTP
    }

    case connected(Duration, certificateEnd: UnixTime?)
    case failed(Cause)
}

/// What a server shows that is not trusted, as far as it helps a person.
package struct SeenCertificate: Hashable, Sendable {
    /// DNS names and addresses.
    package let names: [String]
    package let start: UnixTime
    package let end: UnixTime

    package init(names: [String], start: UnixTime, end: UnixTime) {
        self.names = names
        self.start = start
        self.end = end
    }
}
