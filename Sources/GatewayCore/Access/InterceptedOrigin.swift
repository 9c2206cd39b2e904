import GatewayHTTP

/// The server in whose place the gateway answers on a connection. The client has named it by CONNECT, or in its TLS hello.
package final class InterceptedOrigin: Sendable {
    /// In lower case, without a port.
    package let host: String
    package let port: Int
    /// `http` for a connection without TLS inside, to a server that a plain route leads to.
    package let scheme: Origin.Scheme
    let hostBytes: [UInt8]
    /// As a browser writes it, for a page of the name as it is and for one of the name with the dot of the root.
    private let spellings: [[UInt8]]
    /// The value of the field that proved who the client is; nil when none did. It counts for each request of the connection, as
    /// long as the configuration knows it.
    let proof: [UInt8]?
    /// Of the listener that the client has taken for that server; nil behind a CONNECT.
    let listenerPort: Int?

    package init(
        scheme: Origin.Scheme = .https,
        host: String,
        port: Int,
        proof: [UInt8]? = nil,
        listenerPort: Int? = nil
    ) {
        self.scheme = scheme
        self.listenerPort = listenerPort
        self.host = Origin.unrooted(IPAddress.hostName(host.lowercased()))
        self.port = port
        self.proof = proof
        hostBytes = Array(self.host.utf8)
        let suffix = port == scheme.defaultPort ? "" : ":\(port)"
        spellings = [self.host, self.host + "."]
            .map { Array("\(scheme.rawValue)://\(Origin.urlHost($0))\(suffix)".utf8) }
    }

    func isOrigin(_ value: Range<Int>, of bytes: borrowing Span<UInt8>) -> Bool {
        for spelling in spellings where bytes.equalsLowercased(value, spelling) { return true }
        return false
    }

    /// Whether a request on the connection is for this server. `Host` leaves out the port of its scheme.
    func isNamed(by authority: Authority, in bytes: borrowing Span<UInt8>) -> Bool {
        let named = authority.port ?? scheme.defaultPort
        guard named == port || named == listenerPort else { return false }
        return bytes.equalsLowercased(authority.host, hostBytes)
            || IPAddress.otherSpelling(bytes, authority.host) == hostBytes
    }
}
