/// Reads `limits`. The ranges keep a slip of the keyboard from switching a protection off.
enum LimitsDecoder {
    static func decode(_ fields: ConfigFields?) -> Limits {
        var limits = Limits()
        guard let fields else { return limits }
        fields.explain(meanings)
        func size(_ key: String, _ limit: WritableKeyPath<Limits, Int>, _ range: ClosedRange<Int>) {
            if let value = fields.size(key, in: range) { limits[keyPath: limit] = value }
        }
        func count(_ key: String, _ limit: WritableKeyPath<Limits, Int>, _ range: ClosedRange<Int>) {
            if let value = fields.integer(key, in: range) { limits[keyPath: limit] = value }
        }
        func time(_ key: String, _ limit: WritableKeyPath<Limits, Duration>, _ range: ClosedRange<Duration>) {
            if let value = fields.duration(key, in: range) { limits[keyPath: limit] = value }
        }
        size("header_bytes", \.headerBytes, (1 << 10)...(1 << 20))
        count("header_fields", \.headerFields, 8...1000)
        time("header_timeout", \.headerTimeout, .milliseconds(100) ... .seconds(600))
        time("body_idle_timeout", \.bodyIdleTimeout, .milliseconds(100) ... .seconds(3600))
        limits.requestBodyBytes = fields.size("request_body_bytes", in: 1...(1 << 50))
        size("replay_body_bytes", \.replayBodyBytes, 0...(16 << 20))
        // One head has at most 1 MiB.
        size("head_memory", \.headMemory, (1 << 20)...(1 << 36))
        size("upload_memory", \.uploadMemory, (1 << 20)...(1 << 36))
        limits.connections = fields.integer("connections", in: 1...1_000_000)
        limits.connectionsPerAddress = fields.integer("connections_per_address", in: 1...1_000_000)
        count("streams_per_connection", \.streamsPerConnection, 1...10_000)
        count("pending_per_route", \.pendingPerRoute, 1...1_000_000)
        count("connections_per_upstream", \.connectionsPerUpstream, 1...1_000_000)
        count("pending_per_upstream", \.pendingPerUpstream, 1...1_000_000)
        time("credential_timeout", \.credentialTimeout, .milliseconds(100) ... .seconds(600))
        time("connect_timeout", \.connectTimeout, .milliseconds(100) ... .seconds(600))
        time("connection_max_age", \.connectionMaxAge, .seconds(1) ... .seconds(86_400))
        time("response_timeout", \.responseTimeout, responseTimes)
        time("idle_timeout", \.idleTimeout, .milliseconds(100) ... .seconds(86_400))
        time("keepalive", \.keepAlive, .zero ... .seconds(7200))
        time("drain", \.drain, .zero ... .seconds(3600))
        fields.refuseUnknownKeys()
        return limits
    }

    /// What `limits.response_timeout` may be, and the timeouts of a route.
    static let responseTimes: ClosedRange<Duration> = .milliseconds(100) ... .seconds(86_400)
}
