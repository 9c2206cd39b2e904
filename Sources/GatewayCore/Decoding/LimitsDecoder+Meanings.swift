extension LimitsDecoder {
    private static let defaults = Limits()

    private static func size(_ text: String, _ limit: KeyPath<Limits, Int>, example: String) -> KeyMeaning {
        KeyMeaning(text, default: ConfigUnits.text(bytes: defaults[keyPath: limit]), example: example)
    }

    private static func count(_ text: String, _ limit: KeyPath<Limits, Int>, example: String) -> KeyMeaning {
        KeyMeaning(text, default: String(defaults[keyPath: limit]), example: example)
    }

    private static func time(_ text: String, _ limit: KeyPath<Limits, Duration>, example: String) -> KeyMeaning {
        KeyMeaning(text, default: ConfigUnits.text(defaults[keyPath: limit]), example: example)
    }

    static let meanings = heads.merging(connections) { own, _ in own }

    /// Of requests and what they hold in memory.
    private static let heads: [String: KeyMeaning] = [
        "header_bytes": size("Maximum size of a request or response head.", \.headerBytes, example: "64KiB"),
        "header_fields": count("Maximum number of header fields.", \.headerFields, example: "200"),
        "header_timeout": time("Maximum time for a request head to arrive.", \.headerTimeout, example: "5s"),
        "body_idle_timeout": time("Longest pause within a request body.", \.bodyIdleTimeout, example: "1m"),
        "request_body_bytes": KeyMeaning(
            "Maximum size of a request body. A larger one gets 413.",
            default: "no limit",
            example: "100MiB"
        ),
        "replay_body_bytes": size(
            "How much of a request body is kept so that the request can be repeated after a 401.",
            \.replayBodyBytes,
            example: "1MiB"
        ),
        "head_memory": size(
            "Maximum memory for all request heads that are not complete. At the limit the oldest gets 408.",
            \.headMemory,
            example: "128MiB"
        ),
        "upload_memory": size(
            "Maximum memory for request bodies of one client that upstreams have not taken yet. A request that needs more gets 429.",
            \.uploadMemory,
            example: "256MiB"
        ),
        "credential_timeout": time(
            "How long a request may wait for a token.",
            \.credentialTimeout,
            example: "30s"
        ),
        "pending_per_route": count(
            "Maximum number of requests of a route that wait for a token. More get 503.",
            \.pendingPerRoute,
            example: "256"
        ),
    ]

    private static let connections: [String: KeyMeaning] = [
        "connections": KeyMeaning(
            "Maximum number of client connections. If the process has too few file descriptors for that,"
                + " the gateway does not start.",
            default: "\(DescriptorShares.standardClients), or as many as there are descriptors for",
            example: "20000"
        ),
        "connections_per_address": KeyMeaning(
            "Maximum number of connections of one client address. An IPv6 address counts by its /64 network.",
            default: "no limit",
            example: "256"
        ),
        "streams_per_connection": count(
            "Maximum number of requests at the same time on one HTTP/2 connection of a client.",
            \.streamsPerConnection,
            example: "250"
        ),
        "connections_per_upstream": count(
            "Maximum number of connections to one upstream, over all workers.",
            \.connectionsPerUpstream,
            example: "100"
        ),
        "pending_per_upstream": count(
            "Maximum number of requests that wait for an upstream connection. More get 503.",
            \.pendingPerUpstream,
            example: "256"
        ),
        "connect_timeout": time("Maximum time to connect to an upstream.", \.connectTimeout, example: "2s"),
        "connection_max_age": time(
            "An upstream connection that is older takes no more requests, nor does an HTTP/2 connection of a client.",
            \.connectionMaxAge,
            example: "1h"
        ),
        "response_timeout": time(
            "Longest pause before or within a response. A route can override it (timeouts).",
            \.responseTimeout,
            example: "5m"
        ),
        "idle_timeout": time(
            "How long a connection without a request stays open, on either side.",
            \.idleTimeout,
            example: "2m"
        ),
        "keepalive": time(
            "After this silence, the system checks that the other end of a TCP connection is still there, on both sides and in"
                + " tunnels. If three probes stay unanswered, the connection is lost. 0s turns this off.",
            \.keepAlive,
            example: "15s"
        ),
        "drain": time("How long a stop waits for requests under way.", \.drain, example: "10s"),
    ]
}
