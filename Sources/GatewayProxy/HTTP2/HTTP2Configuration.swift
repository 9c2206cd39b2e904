import GatewayHTTP

/// What HTTP/2 connections to clients allow the peer.
enum HTTP2Configuration {
    /// What a stream may hold of a request that the upstream has not taken.
    static let streamWindow = 131_072

    /// The window of a connection, as large as those of all its streams together: streams whose upstreams take nothing do not stop
    /// the others.
    static func connectionWindow(_ limits: Limits) -> Int {
        min(limits.streamsPerConnection * streamWindow, SendWindow.maximum)
    }

    /// What a connection of a client allows it.
    static func ofClient(_ limits: Limits) -> HTTP2Conversation.Limits {
        HTTP2Conversation.Limits(
            headerBytes: limits.headerBytes,
            headerFields: limits.headerFields,
            maximumStreams: limits.streamsPerConnection,
            connectionWindow: connectionWindow(limits),
            streamWindow: streamWindow
        )
    }

    /// What a client is told.
    static func settings(_ limits: Limits) -> [(key: HTTP2SettingKey, value: Int)] {
        [
            (.maximumStreams, limits.streamsPerConnection),
            (.initialWindow, streamWindow),
            (.maximumHeaderList, ofClient(limits).headerList),
            (.enableConnectProtocol, 1),
        ]
    }
}
