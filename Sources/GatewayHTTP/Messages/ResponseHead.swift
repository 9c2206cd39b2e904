/// A response head as it was read: offsets into its bytes, and what they mean for framing.
package struct ResponseHead: ~Copyable, Sendable {
    package internal(set) var status = 0
    package internal(set) var isHTTP10 = false
    /// It came by HTTP/2, and was written as a head of HTTP/1.1.
    package internal(set) var isHTTP2 = false
    /// From the status code to the end of the line, CRLF included.
    package internal(set) var statusAndReason: Range<Int> = 0..<0
    package internal(set) var section = FieldSection()
    package internal(set) var framing: BodyFraming = .none
    package internal(set) var options = ConnectionOptions()
    /// How long the upstream keeps the connection without a request, where it says so: `Keep-Alive: timeout=5`.
    package internal(set) var keepAliveSeconds: Int?
    package internal(set) var hasDate = false
    /// Of a gRPC response without messages: its status stands in the head.
    package internal(set) var grpcStatus: Int?
    /// Some field has URIs (``FieldKind/uriReference``).
    package internal(set) var hasLinks = false
    package internal(set) var hasCookies = false
    package internal(set) var hasTransportSecurity = false
    package internal(set) var end = 0

    init() {}

    package var fields: [HeadField] { section.fields }
    package var isInformational: Bool { status < 200 }

    /// Whether the connection can be used again once the body has ended.
    package var upstreamKeepsAlive: Bool {
        guard framing != .untilClose else { return false }
        return isHTTP10 ? options.keepAlive && !options.close : !options.close
    }
}
