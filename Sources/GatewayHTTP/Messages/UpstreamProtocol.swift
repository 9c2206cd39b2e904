/// Which version of HTTP a route's upstream is spoken to in.
package enum UpstreamProtocol: String, CaseIterable, Sendable {
    /// HTTP/2 where the upstream chooses it during the TLS handshake, otherwise HTTP/1.1.
    case auto
    case http1
    /// HTTP/2 alone: chosen during the TLS handshake, or known beforehand where there is no TLS.
    case http2

    /// The names that are offered during the TLS handshake (ALPN), the preferred one first.
    package var offeredNames: [String] {
        switch self {
        case .auto: ["h2", "http/1.1"]
        case .http1: ["http/1.1"]
        case .http2: ["h2"]
        }
    }

    /// What a connection speaks once it is open.
    ///
    /// - Parameter chosen: What the upstream has chosen of ``offeredNames``; nil where it chose nothing, or without TLS.
    /// - Returns: nil where the upstream does not speak what the route asks for.
    package func version(chosen: String?, isEncrypted: Bool) -> HTTPVersion? {
        guard isEncrypted else { return self == .http2 ? .http2 : .http1 }
        switch self {
        case .auto: return chosen == "h2" ? .http2 : .http1
        case .http1: return .http1
        case .http2: return chosen == "h2" ? .http2 : nil
        }
    }

    package enum HTTPVersion: Hashable, Sendable {
        case http1
        case http2
    }
}
