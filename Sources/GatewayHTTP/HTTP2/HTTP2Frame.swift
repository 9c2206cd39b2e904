/// The nine bytes that each frame begins with (RFC 9113 section 4.1).
package struct HTTP2FrameHeader: Hashable, Sendable {
    package static let size = 9
    /// Maximum payload that each peer takes without a setting, and that we take (RFC 9113 section 4.2).
    package static let defaultMaximum = 16_384
    package static let largestMaximum = (1 << 24) - 1

    package let length: Int
    /// One of ``HTTP2FrameType``, or one that we do not know.
    package let type: UInt8
    package let flags: HTTP2Flags
    package let stream: UInt32

    package init(length: Int, type: UInt8, flags: HTTP2Flags, stream: UInt32) {
        (self.length, self.type, self.flags, self.stream) = (length, type, flags, stream)
    }

    /// - Parameter start: Nine bytes are there.
    @inline(__always)
    package init(_ bytes: borrowing Span<UInt8>, at start: Int) {
        length = Int(bytes[start]) << 16 | Int(bytes[start &+ 1]) << 8 | Int(bytes[start &+ 2])
        type = bytes[start &+ 3]
        flags = HTTP2Flags(rawValue: bytes[start &+ 4])
        stream = bytes.bigEndian(at: start &+ 5) & 0x7FFF_FFFF
    }
}

package enum HTTP2FrameType: UInt8, Hashable, Sendable {
    case data = 0
    case headers
    case priority
    case reset
    case settings
    case pushPromise
    case ping
    case goAway
    case windowUpdate
    case continuation
}

package struct HTTP2Flags: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let endStream = HTTP2Flags(rawValue: 0x01)
    /// On SETTINGS and PING; the same bit as ``endStream``.
    package static let acknowledgement = HTTP2Flags(rawValue: 0x01)
    package static let endHeaders = HTTP2Flags(rawValue: 0x04)
    package static let padded = HTTP2Flags(rawValue: 0x08)
    package static let priority = HTTP2Flags(rawValue: 0x20)
}

/// Why a stream or a connection ends (RFC 9113 section 7). A peer may send others.
package struct HTTP2ErrorNumber: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let noError = HTTP2ErrorNumber(rawValue: 0)
    package static let protocolError = HTTP2ErrorNumber(rawValue: 1)
    package static let internalError = HTTP2ErrorNumber(rawValue: 2)
    package static let flowControlError = HTTP2ErrorNumber(rawValue: 3)
    package static let streamClosed = HTTP2ErrorNumber(rawValue: 5)
    package static let frameSizeError = HTTP2ErrorNumber(rawValue: 6)
    package static let refusedStream = HTTP2ErrorNumber(rawValue: 7)
    package static let cancel = HTTP2ErrorNumber(rawValue: 8)
    package static let compressionError = HTTP2ErrorNumber(rawValue: 9)
    package static let enhanceYourCalm = HTTP2ErrorNumber(rawValue: 11)
    package static let http11Required = HTTP2ErrorNumber(rawValue: 13)

    /// As RFC 9113 section 7 spells it.
    package var name: String {
        let names = [
            "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
            "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
        ]
        return names.indices.contains(Int(rawValue)) ? names[Int(rawValue)] : "error \(rawValue)"
    }
}

/// The frame with which an HTTP/2 peer gave up a request or the connection, for a person.
package struct HTTP2Farewell: Hashable, Sendable {
    package let endsConnection: Bool
    /// No error: the peer stops, or restarts.
    package let isOrderly: Bool
    /// Such as `GOAWAY, ENHANCE_YOUR_CALM: "too_many_pings"`.
    package let words: String

    /// - Parameter text: What the peer says in words. What could be a secret in it is left out.
    package init(goAway code: HTTP2ErrorNumber, saying text: [UInt8] = []) {
        let said = Self.readable(text)
        endsConnection = true
        isOrderly = code == .noError
        words = "GOAWAY, \(code.name)" + (said.isEmpty ? "" : ": \"\(said)\"")
    }

    package init(reset code: HTTP2ErrorNumber) {
        endsConnection = false
        isOrderly = code == .noError
        words = "RST_STREAM, \(code.name)"
    }

    /// Longer words are more likely a token than a reason.
    private static let longestWord = 24

    private static func readable(_ text: [UInt8]) -> String {
        let line = String(decoding: text, as: UTF8.self).singleLine(limit: 200).replacing("\"", with: "'")
        return line.split(separator: " ").map { $0.utf8.count > longestWord ? "…" : String($0) }.joined(separator: " ")
    }
}

/// A rule of HTTP/2 that the peer has broken, or a limit that it has exceeded, in words for the log.
package enum HTTP2Fault: String, Error, Hashable, Sendable {
    // COMPRESSION_ERROR: both ends have different tables from here on.
    case truncatedBlock = "a field block ends in the middle of a field"
    case invalidIndex = "a field block refers to an entry that is not in the table"
    case largeInteger = "a number in a field block is too large"
    case invalidHuffman = "a string in a field block has invalid Huffman code"
    case invalidTableSize = "a field block has an invalid dynamic table size update"
    case expandingBlock = "a field block expands to far more than the limit"
    // FRAME_SIZE_ERROR
    case longFrame = "a frame is longer than SETTINGS_MAX_FRAME_SIZE"
    case prioritySize = "PRIORITY does not have 5 bytes"
    case resetSize = "RST_STREAM does not have 4 bytes"
    case pingSize = "PING does not have 8 bytes"
    case goAwaySize = "GOAWAY is too short"
    case windowUpdateSize = "WINDOW_UPDATE does not have 4 bytes"
    case headersSize = "HEADERS is too short for its priority"
    case acknowledgementSize = "an acknowledgement of SETTINGS has a payload"
    case settingsSize = "SETTINGS ends in the middle of a setting"
    case missingPadding = "a padded frame is empty"
    // PROTOCOL_ERROR
    case invalidEnablePush = "SETTINGS_ENABLE_PUSH is invalid"
    case invalidMaximumFrame = "SETTINGS_MAX_FRAME_SIZE is invalid"
    case invalidConnectProtocol = "SETTINGS_ENABLE_CONNECT_PROTOCOL is invalid"
    case missingSettings = "the first frame is not SETTINGS"
    case interruptedBlock = "another frame interrupts a field block"
    case missingPreface = "the connection does not begin with the preface"
    case pushPromise = "PUSH_PROMISE is not allowed"
    case zeroIncrement = "WINDOW_UPDATE has an increment of 0"
    case strayContinuation = "CONTINUATION without HEADERS"
    case longPadding = "the padding is longer than the frame"
    case missingStream = "a frame that needs a stream is on stream 0"
    case unexpectedStream = "a frame for the connection is on a stream"
    case invalidStream = "HEADERS for a stream that the peer cannot open"
    case unfinishedTrailers = "trailers do not end the stream"
    case dataForIdle = "DATA for an idle stream"
    case resetOfIdle = "RST_STREAM for an idle stream"
    case windowUpdateOfIdle = "WINDOW_UPDATE for an idle stream"
    // STREAM_CLOSED
    case afterEnd = "a frame after the end of the stream"
    // FLOW_CONTROL_ERROR
    case invalidInitialWindow = "SETTINGS_INITIAL_WINDOW_SIZE is invalid"
    case connectionWindowExceeded = "DATA exceeds the connection's window"
    case streamWindowExceeded = "DATA exceeds the stream's window"
    case largeWindow = "WINDOW_UPDATE exceeds the largest window"
    case largeInitialWindow = "SETTINGS_INITIAL_WINDOW_SIZE makes a window exceed the maximum"
    // ENHANCE_YOUR_CALM
    case tooManyFrames = "too many control frames"
    case tooManyResets = "too many streams reset"
    case tooManyFaults = "too many stream errors"
    case tooManyEmptyFrames = "too many empty DATA frames"
    case longBlock = "a field block is too long or has too many frames"

    /// Sent in GOAWAY, or in RST_STREAM if a stream alone is broken.
    package var code: HTTP2ErrorNumber {
        switch self {
        case .truncatedBlock, .invalidIndex, .largeInteger, .invalidHuffman, .invalidTableSize, .expandingBlock:
            .compressionError
        case .longFrame, .prioritySize, .resetSize, .pingSize, .goAwaySize, .windowUpdateSize, .headersSize,
            .acknowledgementSize, .settingsSize, .missingPadding:
            .frameSizeError
        case .invalidEnablePush, .invalidMaximumFrame, .invalidConnectProtocol, .missingSettings, .interruptedBlock,
            .missingPreface, .pushPromise, .zeroIncrement, .strayContinuation, .longPadding, .missingStream,
            .unexpectedStream, .invalidStream, .unfinishedTrailers, .dataForIdle, .resetOfIdle, .windowUpdateOfIdle:
            .protocolError
        case .afterEnd:
            .streamClosed
        case .invalidInitialWindow, .connectionWindowExceeded, .streamWindowExceeded, .largeWindow, .largeInitialWindow:
            .flowControlError
        case .tooManyFrames, .tooManyResets, .tooManyFaults, .tooManyEmptyFrames, .longBlock:
            .enhanceYourCalm
        }
    }
}

/// What the peer wants of us (RFC 9113 section 6.5.2). Each value holds until it is changed.
///
/// Settings that change nothing are checked and not kept: SETTINGS_HEADER_TABLE_SIZE (our field blocks use no table),
/// SETTINGS_MAX_HEADER_LIST_SIZE (advice), SETTINGS_ENABLE_PUSH (we push nothing), SETTINGS_MAX_FRAME_SIZE (our frames are as short as
/// each peer must take).
package struct HTTP2PeerSettings: Hashable, Sendable {
    package private(set) var maximumStreams = Int.max
    package private(set) var initialWindow = SendWindow.initial
    /// RFC 8441: it takes extended CONNECT.
    package private(set) var allowsExtendedConnect = false

    package init() {}

    /// - Parameter payload: A whole number of settings; those that are unknown are ignored.
    mutating func read(_ payload: borrowing Span<UInt8>, ofServer: Bool) throws(HTTP2Fault) {
        var position = 0
        while position &+ 6 <= payload.count {
            let key = HTTP2SettingKey(rawValue: UInt16(payload[position]) << 8 | UInt16(payload[position &+ 1]))
            let value = payload.bigEndian(at: position &+ 2)
            position &+= 6
            guard let key else { continue }
            try take(key, value, ofServer: ofServer)
        }
    }

    private mutating func take(_ key: HTTP2SettingKey, _ value: UInt32, ofServer: Bool) throws(HTTP2Fault) {
        switch key {
        case .headerTableSize, .maximumHeaderList: break
        case .enablePush:
            guard value == 0 || value == 1 && !ofServer else {
                throw .invalidEnablePush
            }
        case .maximumStreams: maximumStreams = Int(value)
        case .initialWindow:
            guard value <= SendWindow.maximum else {
                throw .invalidInitialWindow
            }
            initialWindow = Int(value)
        case .maximumFrame:
            guard (HTTP2FrameHeader.defaultMaximum...HTTP2FrameHeader.largestMaximum).contains(Int(value)) else {
                throw .invalidMaximumFrame
            }
        case .enableConnectProtocol:
            guard value <= 1 else { throw .invalidConnectProtocol }
            allowsExtendedConnect = value == 1
        }
    }
}

package enum HTTP2SettingKey: UInt16, Hashable, Sendable {
    case headerTableSize = 1
    case enablePush
    case maximumStreams
    case initialWindow
    case maximumFrame
    case maximumHeaderList
    case enableConnectProtocol = 8
}

extension Span<UInt8> {
    /// Four bytes, the highest first.
    @inline(__always)
    package func bigEndian(at start: Int) -> UInt32 {
        UInt32(self[start]) << 24 | UInt32(self[start &+ 1]) << 16 | UInt32(self[start &+ 2]) << 8
            | UInt32(self[start &+ 3])
    }
}
