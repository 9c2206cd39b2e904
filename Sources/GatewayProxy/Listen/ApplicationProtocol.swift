/// What is agreed on by ALPN (RFC 7301).
enum ApplicationProtocol {
    static let http2 = "h2"
    static let http1 = "http/1.1"
    /// To clients, the preferred one first.
    static let served = [http2, http1]
}
