import NIOCore
import NIOEmbedded
import Testing

@testable import GatewayProxy

/// The library's limit for request heads holds before the client has acknowledged it.
@Suite(.timeLimit(.minutes(1)))
struct HTTP2FirstSettingsTests {
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    private static let settings: [UInt8] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0]
    private static let acknowledgement: [UInt8] = [0, 0, 0, 4, 1, 0, 0, 0, 0]
    private static let request: [UInt8] = [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x82]

    /// What is behind the handler of what a client sends in these parts.
    private static func read(_ parts: [[UInt8]]) throws -> [UInt8] {
        let channel = EmbeddedChannel(handler: HTTP2FirstSettings())
        for part in parts { try channel.writeInbound(ByteBuffer(bytes: part)) }
        var read: [UInt8] = []
        while let bytes = try channel.readInbound(as: ByteBuffer.self) { read += Array(bytes.readableBytesView) }
        _ = try channel.finish(acceptAlreadyClosed: true)
        return read
    }

    @Test(arguments: [1, 2, 7, 24, 33, 39, 1000])
    func theFirstSettingsAreAcknowledgedBehindThoseOfTheClient(_ size: Int) throws {
        let bytes = Self.preface + Self.settings + Self.request
        let parts = stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
        #expect(try Self.read(parts) == Self.preface + Self.settings + Self.acknowledgement + Self.request)
    }

    @Test(arguments: [
        Array("GET / HTTP/1.1\r\n".utf8), preface + request, preface + acknowledgement,
        preface + [0xFF, 0xFF, 0xFF, 4, 0, 0, 0, 0, 0],
    ])
    func whatBeginsInAnotherWayPassesAsItIs(_ bytes: [UInt8]) throws {
        #expect(try Self.read(bytes.map { [$0] }) == bytes)
    }

    @Test func theClientGetsTheSecondSettings() throws {
        let channel = EmbeddedChannel(handler: HTTP2FirstSettings())
        for text in ["first", "second", "third"] {
            try channel.writeOutbound(IOData.byteBuffer(ByteBuffer(string: text)))
        }
        var sent: [String] = []
        while case .byteBuffer(let bytes)? = try channel.readOutbound(as: IOData.self) {
            sent.append(String(buffer: bytes))
        }
        #expect(sent == ["second", "third"])
        _ = try channel.finish()
    }
}
