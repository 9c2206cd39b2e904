package import GatewayConfiguration

/// Every limit of the gateway, with its default. Each answers an attack or an accident.
package struct Limits: Hashable, Sendable {
    /// The head of a request or response, request line included.
    var headerBytes = 32 << 10
    var headerFields = 100
    /// From the first byte of a head (or from accept) to its last.
    package var headerTimeout: Duration = .seconds(10)
    /// The longest silence while a request body is expected.
    var bodyIdleTimeout: Duration = .seconds(30)
    /// The body of a request, without the framing of chunks; nil: no limit.
    package var requestBodyBytes: Int?
    /// Memory per request held so that a 401 can be replayed.
    package var replayBodyBytes = 64 << 10
    /// Bytes of all heads that are not whole yet, on all connections together.
    var headMemory = 64 << 20
    /// Request bodies of one client that upstreams have not taken yet.
    var uploadMemory = 64 << 20
    /// nil where as many are admitted as there are descriptors for, up to ``DescriptorShares/standardClients``.
    package var connections: Int?
    /// Connections of one client address; nil where any number is admitted.
    var connectionsPerAddress: Int?
    /// Requests at the same time on one HTTP/2 connection of a client.
    var streamsPerConnection = 100
    var pendingPerRoute = 1024
    /// To one upstream with one set of TLS settings; event loops share them out among themselves.
    package var connectionsPerUpstream = 1024
    /// Requests that wait because an upstream has that many connections.
    package var pendingPerUpstream = 1024
    /// How long a request may wait for a token.
    package var credentialTimeout: Duration = .seconds(20)
    package var connectTimeout: Duration = .seconds(5)
    /// An upstream connection that is older takes no more requests.
    var connectionMaxAge: Duration = .seconds(600)
    /// From the last byte of the request to the head of the response, and the longest silence within a response. A route can have
    /// others (``RoutePlan/Timeouts``).
    package var responseTimeout: Duration = .seconds(60)
    /// A connection without a request, on either side.
    package var idleTimeout: Duration = .seconds(60)
    /// After this silence the system asks the other end of a TCP connection whether it is still there; zero: never.
    var keepAlive: Duration = .seconds(30)
    package var drain: Duration = .seconds(30)

    package init() {}
}

/// The keys of `limits`.
extension Limits {
    /// What ``responseTimeout`` may be, and the timeouts of a route.
    static let responseTimes: ClosedRange<Duration> = .milliseconds(100) ... .seconds(86_400)

    /// The keys of `limits`. The ranges keep a slip of the keyboard from switching a protection off.
    package static let keys = Keys(Limits()) {
        $0("header_bytes", \.headerBytes, .bytes((1 << 10)...(1 << 20)), example: "64KiB")
            .means("Maximum size of a request or response head.")
        $0("header_fields", \.headerFields, .count(8...1000), example: "200")
            .means("Maximum number of header fields.")
        $0("header_timeout", \.headerTimeout, .duration(.milliseconds(100) ... .seconds(600)), example: "5s")
            .means("Maximum time for a request head to arrive.")
        $0("body_idle_timeout", \.bodyIdleTimeout, .duration(.milliseconds(100) ... .seconds(3600)), example: "1m")
            .means("Longest pause within a request body.")
        $0(
            "request_body_bytes",
            \.requestBodyBytes,
            .bytes(1...(1 << 50)),
            default: "no limit",
            shownAs: "none",
            example: "100MiB"
        )
        .means("Maximum size of a request body. A larger one gets 413.")
        $0("replay_body_bytes", \.replayBodyBytes, .bytes(0...(16 << 20)), example: "1MiB")
            .means(
                "How much of a request body is kept, so that the request can be replayed after a 401, or signed as a "
                    + "whole."
            )
        // One head has at most 1 MiB.
        $0("head_memory", \.headMemory, .bytes((1 << 20)...(1 << 36)), example: "128MiB")
            .means("Maximum memory for all incomplete request heads. At the limit, the oldest request gets 408.")
        $0("upload_memory", \.uploadMemory, .bytes((1 << 20)...(1 << 36)), example: "256MiB")
            .means(
                "Maximum memory for request bodies of one client that are waiting for upstreams, and for lists of MCP tools on their way "
                    + "to it. A request that needs more gets 429."
            )
        $0(
            "connections",
            \.connections,
            .count(1...1_000_000),
            default: "\(DescriptorShares.standardClients), or as many as there are file descriptors for",
            shownAs: "at most \(DescriptorShares.standardClients)",
            example: "20000"
        )
        .means(
            "Maximum number of client connections. If the process has too few file descriptors for that,"
                + " the gateway does not start."
        )
        $0(
            "connections_per_address",
            \.connectionsPerAddress,
            .count(1...1_000_000),
            default: "no limit",
            shownAs: "none",
            example: "256"
        )
        .means("Maximum number of connections of one client address. An IPv6 address counts by its /64 network.")
        $0("streams_per_connection", \.streamsPerConnection, .count(1...10_000), example: "250")
            .means("Maximum number of concurrent requests on one HTTP/2 connection of a client.")
        $0("pending_per_route", \.pendingPerRoute, .count(1...1_000_000), example: "256")
            .means("Maximum number of requests of a route that wait for a token. Further requests get 503.")
        $0("connections_per_upstream", \.connectionsPerUpstream, .count(1...1_000_000), example: "100")
            .means("Maximum number of connections to one upstream, over all workers.")
        $0("pending_per_upstream", \.pendingPerUpstream, .count(1...1_000_000), example: "256")
            .means("Maximum number of requests that wait for an upstream connection. Further requests get 503.")
        $0("credential_timeout", \.credentialTimeout, .duration(.milliseconds(100) ... .seconds(600)), example: "30s")
            .means(
                "How long a request may wait for a token. One call to a token endpoint is limited to 15 s in any case."
            )
        $0("connect_timeout", \.connectTimeout, .duration(.milliseconds(100) ... .seconds(600)), example: "2s")
            .means("Maximum time to connect to an upstream.")
        $0("connection_max_age", \.connectionMaxAge, .duration(.seconds(1) ... .seconds(86_400)), example: "1h")
            .means(
                "Maximum age of an upstream connection, and of an HTTP/2 connection of a client. An older "
                    + "one takes no new requests."
            )
        $0("response_timeout", \.responseTimeout, .duration(responseTimes), example: "5m")
            .means("Longest pause before or within a response. A route can override it (timeouts).")
        $0("idle_timeout", \.idleTimeout, .duration(.milliseconds(100) ... .seconds(86_400)), example: "2m")
            .means("How long a connection without a request stays open, on either side.")
        $0("keepalive", \.keepAlive, .duration(.zero ... .seconds(7200)), example: "15s")
            .means(
                "After this silence, the system checks that the other end of a TCP connection is still there, on both sides and in"
                    + " tunnels. If three probes stay unanswered, the connection is lost. 0s turns this off."
            )
        $0("drain", \.drain, .duration(.zero ... .seconds(3600)), isFixed: true, example: "10s")
            .means("How long a shutdown waits for requests in progress.")
    }
}
