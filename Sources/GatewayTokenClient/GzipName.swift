import NIOCore
import NIOHTTP1

/// Gives gzip its usual name where an answer calls it `x-gzip` (RFC 9110 section 8.4.1.3): the decompressor knows no other.
final class GzipName: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data),
            head.headers[canonicalForm: "Content-Encoding"].map({ $0.lowercased() }) == ["x-gzip"]
        else { return context.fireChannelRead(data) }
        head.headers.replaceOrAdd(name: "Content-Encoding", value: "gzip")
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }
}
