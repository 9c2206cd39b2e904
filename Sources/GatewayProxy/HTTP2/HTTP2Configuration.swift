import GatewayHTTP
import NIOCore
import NIOHTTP2

/// What HTTP/2 connections to clients allow the peer.
///
/// The library bounds what a peer can make it do: frames that reset streams, CONTINUATION and empty DATA, and errors of
/// streams. It ends the connection of a peer that exceeds a limit.
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

    static func client(_ limits: Limits) -> NIOHTTP2Handler.ConnectionConfiguration {
        var configuration = NIOHTTP2Handler.ConnectionConfiguration()
        // For HTTP2FirstSettings.
        configuration.initialSettings = [HTTP2Setting(parameter: .maxHeaderListSize, value: headerList(limits))]
        // HTTP2RequestHead has all rules, and says which one was broken.
        configuration.headerBlockValidation = .disabled
        // HTTP2FrameMeter bounds them by what the connection does: a client of gRPC sends PING as often as content comes.
        configuration.controlFrameRateLimit.windowLength = .zero
        // Some clients write content that is empty.
        configuration.maximumSequentialEmptyDataFrames = 10
        // Frames of a stream that was reset may be on their way.
        configuration.maximumRecentlyResetStreams = max(32, limits.streamsPerConnection)
        configuration.maximumSequentialContinuationFrames = maximumContinuationFrames(limits)
        return configuration
    }

    /// What a client is told.
    static func settings(_ limits: Limits) -> HTTP2Settings {
        [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: limits.streamsPerConnection),
            HTTP2Setting(parameter: .initialWindowSize, value: streamWindow),
            HTTP2Setting(parameter: .maxHeaderListSize, value: headerList(limits)),
            HTTP2Setting(parameter: .enableConnectProtocol, value: 1),
        ]
    }

    /// A list counts 32 bytes more for each field (RFC 9113 section 6.5.2). So the decoder of heads refuses first, and it answers.
    private static func headerList(_ limits: Limits) -> Int { limits.headerBytes + 32 * limits.headerFields }

    private static func maximumContinuationFrames(_ limits: Limits) -> Int {
        max(5, headerList(limits) / frameSize + 1)
    }
}

/// Sees whether the library has ended the connection because the client broke a rule.
final class HTTP2FailureWatch: NIOHTTP2FrameDelegate {
    private(set) var hasFailed = false

    func wroteFrame(_ frame: HTTP2Frame) {
        if case .goAway(_, let code, _) = frame.payload, code != .noError { hasFailed = true }
    }
}
