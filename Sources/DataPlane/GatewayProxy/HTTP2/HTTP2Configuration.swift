import GatewayCore
import NIOHTTP2

/// What an HTTP/2 connection of a client allows.
///
/// The library bounds what a client can make it do: frames that reset streams, PING, SETTINGS, PRIORITY, CONTINUATION and empty
/// DATA, and errors of streams. Where one is exceeded, it ends the connection.
enum HTTP2Configuration {
    /// What a stream may hold of a request that the upstream has not taken.
    static let streamWindow = 131_072
    /// What the payload of a frame has at most, as both ends of a connection take it from its start.
    static let frameSize = 16_384

    /// So that streams whose upstreams take nothing do not stop the others.
    static func connectionWindow(_ limits: Limits) -> Int {
        min(limits.streamsPerConnection * streamWindow, SendWindow.maximum)
    }

    static func connection(_ limits: Limits) -> NIOHTTP2Handler.ConnectionConfiguration {
        var configuration = NIOHTTP2Handler.ConnectionConfiguration()
        configuration.initialSettings = [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: limits.streamsPerConnection),
            HTTP2Setting(parameter: .initialWindowSize, value: streamWindow),
            HTTP2Setting(parameter: .maxHeaderListSize, value: headerList(limits)),
            HTTP2Setting(parameter: .enableConnectProtocol, value: 1),
        ]
        // HTTP2RequestHead has all rules, and says which one was broken.
        configuration.headerBlockValidation = .disabled
        // Some clients write content that is empty.
        configuration.maximumSequentialEmptyDataFrames = 10
        // What comes for one that was reset may be on its way.
        configuration.maximumRecentlyResetStreams = max(32, limits.streamsPerConnection)
        configuration.maximumSequentialContinuationFrames = max(5, headerList(limits) / frameSize + 1)
        return configuration
    }

    /// A list counts 32 bytes more for each field (RFC 9113 section 6.5.2), so that the decoder of heads refuses first. It answers.
    static func headerList(_ limits: Limits) -> Int { limits.headerBytes + 32 * limits.headerFields }
}

/// Sees whether the library has ended the connection because the client broke a rule.
final class HTTP2FailureWatch: NIOHTTP2FrameDelegate {
    private(set) var hasFailed = false

    func wroteFrame(_ frame: HTTP2Frame) {
        if case .goAway(_, let code, _) = frame.payload, code != .noError { hasFailed = true }
    }
}
