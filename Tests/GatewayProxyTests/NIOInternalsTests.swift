import Foundation
import NIOCore
import NIOEmbedded
import NIOPosix
import Synchronization
import Testing

@testable import GatewayProxy

/// What the data plane relies on beyond NIO's public surface: a new version of NIO must not change it unnoticed.
@Suite("NIO's internals", .timeLimit(.minutes(5)))
struct NIOInternalsTests {
    @Test func aChannelIsReachedAtItsEndAndGivesItsSocket() async throws {
        let origin = try RawOrigin { connection, _, origin in
            guard let question = connection.read(through: "?") else { throw RawError("no question") }
            origin.record(question)
            connection.send("answer")
            connection.close()
        }
        let handler = PassedThrough(on: MultiThreadedEventLoopGroup.singleton.any())
        let channel = try await ClientBootstrap(group: handler.loop)
            .channelOption(.autoRead, value: false)
            .channelInitializer { $0.pipeline.addHandler(handler) }
            .connect(host: "127.0.0.1", port: origin.port).get()

        #expect(try await channel.eventLoop.submit { Self.peerPort(of: channel) }.get() == origin.port)
        try await channel.eventLoop.submit {
            let end = ChannelEnd(of: channel)
            end.write(ByteBuffer(string: "question?"))
            end.flush()
            end.read()
        }.get()
        #expect(try await handler.read.futureResult.get() == "answer")
        #expect(handler.calls.load(ordering: .relaxed) == 0, "A call has come by the pipeline.")

        // The origin may have closed first.
        channel.close(promise: nil)
        try await channel.closeFuture.get()
        #expect(try await channel.eventLoop.submit { Self.peerPort(of: channel) }.get() == nil)
        try origin.finish()
        #expect(origin.requests == ["question?"])
    }

    @Test func aChannelWithoutASocketGivesNone() { #expect(ChannelSocket(of: EmbeddedChannel()) == nil) }

    /// The port that the system names for the descriptor which the channel gives.
    private static func peerPort(of channel: any Channel) -> Int? {
        ChannelSocket(of: channel)?.with { descriptor in
            var address = sockaddr_in()
            var size = socklen_t(MemoryLayout<sockaddr_in>.size)
            let result = unsafe withUnsafeMutablePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe getpeername(descriptor, $0, &size)
                }
            }
            return result == 0 ? Int(in_port_t(bigEndian: address.sin_port)) : nil
        } ?? nil
    }
}

/// Counts the operations that pass the pipeline, and keeps what is read.
private final class PassedThrough: ChannelDuplexHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    let loop: any EventLoop
    let calls = Atomic(0)
    let read: EventLoopPromise<String>

    init(on loop: any EventLoop) {
        self.loop = loop
        read = loop.makePromise()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        read.succeed(String(buffer: unwrapInboundIn(data)))
    }

    func channelInactive(context: ChannelHandlerContext) { read.fail(ChannelError.ioOnClosedChannel) }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        calls.add(1, ordering: .relaxed)
        context.write(data, promise: promise)
    }

    func flush(context: ChannelHandlerContext) {
        calls.add(1, ordering: .relaxed)
        context.flush()
    }

    func read(context: ChannelHandlerContext) {
        calls.add(1, ordering: .relaxed)
        context.read()
    }
}
