import NIOCore
import NIOHPACK
import Testing

@testable import GatewayProxy

@Suite("Messages of HTTP/2", .timeLimit(.minutes(1)))
struct HTTP2MessagesTests {
    private static func trailers(_ lines: String...) -> [String]? {
        let section = ByteBuffer(string: lines.map { "\($0)\r\n" }.joined() + "\r\n")
        return HTTP2Messages.trailers(section, within: 16_384)?.map { "\($0.name): \($0.value)" }
    }

    private static let long = String(repeating: "x", count: 20_000)

    @Test func trailersThatFitStayAsTheyAre() {
        #expect(Self.trailers("Grpc-Status: 0", "X-Sum: 1") == ["grpc-status: 0", "x-sum: 1"])
        #expect(Self.trailers() == nil)
    }

    /// Without it, a call that has ended would be one that failed for no known reason.
    @Test func ofLongerOnesTheStatusOfACallIsKept() {
        let message = String(repeating: "x", count: 2048)
        let kept = Self.trailers("Grpc-Status: 7", "Grpc-Message: \(Self.long)")
        #expect(kept == ["grpc-status: 7", "grpc-message: \(message)"])
        #expect(Self.trailers("X-Sum: \(Self.long)", "Grpc-Status: 0") == ["grpc-status: 0"])
        #expect(Self.trailers("X-Sum: \(Self.long)") == nil)
        #expect(Self.trailers("Grpc-Status: \(Self.long)") == nil)
    }
}
