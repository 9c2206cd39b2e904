/// Every limit of the gateway, with its default. Each answers an attack or an accident.
package struct Limits: Hashable, Sendable {
    /// The head of a request or response, request line included.
    package var headerBytes = 32 << 10
    package var headerFields = 100
    /// From the first byte of a head (or from accept) to its last.
    package var headerTimeout: Duration = .seconds(10)
    /// The longest silence while a request body is expected.
    package var bodyIdleTimeout: Duration = .seconds(30)
    /// Content of a request, the framing of chunks not counted; nil where none is too long.
    package var requestBodyBytes: Int?
    /// Memory per request held so that a 401 can be replayed.
    package var replayBodyBytes = 64 << 10
    /// Bytes of all heads that are not whole yet, on all connections together.
    package var headMemory = 64 << 20
    /// Content of one client's requests that upstreams have not taken yet.
    package var uploadMemory = 64 << 20
    /// nil where as many are admitted as there are descriptors for, up to ``DescriptorShares/standardClients``.
    package var connections: Int?
    /// Of one client address; nil where any number is admitted.
    package var connectionsPerAddress: Int?
    /// Requests at the same time on one HTTP/2 connection of a client.
    package var streamsPerConnection = 100
    package var pendingPerRoute = 1024
    /// To one upstream with one set of TLS settings; event loops share them out among themselves.
    package var connectionsPerUpstream = 1024
    /// Requests that wait because an upstream has that many connections.
    package var pendingPerUpstream = 1024
    /// How long a request may wait for a token.
    package var credentialTimeout: Duration = .seconds(20)
    package var connectTimeout: Duration = .seconds(5)
    /// An upstream connection that is older takes no more requests.
    package var connectionMaxAge: Duration = .seconds(600)
    /// From the last byte of the request to the head of the response, and the longest silence within a response. A route can have
    /// others (``RoutePlan/Timeouts``).
    package var responseTimeout: Duration = .seconds(60)
    /// A connection without a request, on either side.
    package var idleTimeout: Duration = .seconds(60)
    /// After this silence the system asks the other end of a TCP connection whether it is still there; zero: never.
    package var keepAlive: Duration = .seconds(30)
    package var drain: Duration = .seconds(30)

    package init() {}
}
