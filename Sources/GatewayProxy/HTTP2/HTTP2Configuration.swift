import GatewayHTTP
import NIOCore
import NIOHTTP2

/// What HTTP/2 connections to clients and upstreams allow the peer.
///
/// The library bounds what a peer can make it do: frames that reset streams, CONTINUATION and empty DATA, errors of streams, and
/// PING, SETTINGS and PRIORITY of an upstream. It ends the connection of a peer that exceeds a limit.
enum HTTP2Configuration {
    /// What a stream may hold of a request that the upstream has not taken.
    static let streamWindow = 131_072
    /// Maximum payload of a frame that each peer accepts without a setting (RFC 9113 section 4.2).
    static let frameSize = HTTP2BlockSize.maximum

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

    /// Frames of a connection to an upstream.
    static func upstreamFrameHandler(_ limits: Limits) -> NIOHTTP2Handler {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .enablePush, value: 0),
            HTTP2Setting(parameter: .maxConcurrentStreams, value: 0),
            HTTP2Setting(parameter: .initialWindowSize, value: HTTP2UpstreamConnection.streamWindow),
            HTTP2Setting(parameter: .maxHeaderListSize, value: headerList(limits)),
        ]
        // Both are judged where the fields are read (HTTP2ResponseHead, DeclaredLength).
        connection.headerBlockValidation = .disabled
        connection.contentLengthValidation = .disabled
        connection.maximumSequentialContinuationFrames = maximumContinuationFrames(limits)
        connection.maximumSequentialEmptyDataFrames = 16
        // Frames of a stream that was reset may be on their way.
        connection.maximumRecentlyResetStreams = 1000
        connection.maximumBufferedControlFrames = 1000
        // Servers measure the round trip with PING, and a busy connection brings more than the library allows. It keeps the time of
        // each frame that counts, so the limits are for a short while.
        connection.controlFrameRateLimit.maximumCount = 1000
        connection.controlFrameRateLimit.windowLength = .seconds(1)
        var stream = NIOHTTP2Handler.StreamConfiguration()
        // Servers reset each stream whose request they did not want whole. There is no limit: each is one that was opened here.
        stream.streamResetFrameRateLimit.windowLength = .zero
        return NIOHTTP2Handler(mode: .client, connectionConfiguration: connection, streamConfiguration: stream)
    }

    /// A list counts 32 bytes more for each field (RFC 9113 section 6.5.2). So the decoder of heads refuses first, and it answers.
    private static func headerList(_ limits: Limits) -> Int { limits.headerBytes + 32 * limits.headerFields }

    private static func maximumContinuationFrames(_ limits: Limits) -> Int {
        max(5, headerList(limits) / frameSize + 1)
    }
}
