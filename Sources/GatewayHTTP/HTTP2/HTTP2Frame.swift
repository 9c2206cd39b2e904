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
    /// Of SETTINGS and PING.
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
    package static let settingsTimeout = HTTP2ErrorNumber(rawValue: 4)
    package static let streamClosed = HTTP2ErrorNumber(rawValue: 5)
    package static let frameSizeError = HTTP2ErrorNumber(rawValue: 6)
    package static let refusedStream = HTTP2ErrorNumber(rawValue: 7)
    package static let cancel = HTTP2ErrorNumber(rawValue: 8)
    package static let compressionError = HTTP2ErrorNumber(rawValue: 9)
    package static let connectError = HTTP2ErrorNumber(rawValue: 10)
    package static let enhanceYourCalm = HTTP2ErrorNumber(rawValue: 11)
    package static let inadequateSecurity = HTTP2ErrorNumber(rawValue: 12)
    package static let http11Required = HTTP2ErrorNumber(rawValue: 13)
}

/// A rule of HTTP/2 that the peer has broken, or a limit that it has exceeded.
package struct HTTP2Fault: Error, Hashable, Sendable {
    /// Sent in GOAWAY, or in RST_STREAM if a stream alone is broken.
    package let code: HTTP2ErrorNumber
    /// For the log.
    package let reason: String

    package init(_ code: HTTP2ErrorNumber, _ reason: StaticString) { self.init(code, text: "\(reason)") }

    init(_ fault: FieldBlockDecoder.Fault) { self.init(.compressionError, text: fault.rawValue) }

    private init(_ code: HTTP2ErrorNumber, text: String) { (self.code, reason) = (code, text) }
}

/// What the peer wants of us (RFC 9113 section 6.5.2). Each value holds until it is changed.
///
/// SETTINGS_HEADER_TABLE_SIZE is not among them: our field blocks use no table. Nor is SETTINGS_MAX_HEADER_LIST_SIZE, which is advice.
package struct HTTP2PeerSettings: Hashable, Sendable {
    package private(set) var isPushEnabled = true
    package private(set) var maximumStreams = Int.max
    package private(set) var initialWindow = SendWindow.initial
    package private(set) var maximumFrame = HTTP2FrameHeader.defaultMaximum
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
                throw HTTP2Fault(.protocolError, "SETTINGS_ENABLE_PUSH is invalid")
            }
            isPushEnabled = value == 1
        case .maximumStreams: maximumStreams = Int(value)
        case .initialWindow:
            guard value <= SendWindow.maximum else {
                throw HTTP2Fault(.flowControlError, "SETTINGS_INITIAL_WINDOW_SIZE is invalid")
            }
            initialWindow = Int(value)
        case .maximumFrame:
            guard (HTTP2FrameHeader.defaultMaximum...HTTP2FrameHeader.largestMaximum).contains(Int(value)) else {
                throw HTTP2Fault(.protocolError, "SETTINGS_MAX_FRAME_SIZE is invalid")
            }
            maximumFrame = Int(value)
        case .enableConnectProtocol:
            guard value <= 1 else { throw HTTP2Fault(.protocolError, "SETTINGS_ENABLE_CONNECT_PROTOCOL is invalid") }
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
