import NIOCore
import NIOHTTP1
import NIOHTTPCompression

/// Writes `Content-Encoding` the way the decompressor reads it: `gzip` for `x-gzip` (RFC 9110 section 8.4.1.3), and no `identity`,
/// which changes nothing.
final class ContentCodingNames: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data), head.headers.contains(name: "Content-Encoding") else {
            return context.fireChannelRead(data)
        }
        let codings = head.headers[canonicalForm: "Content-Encoding"].map { $0.lowercased() }
            .filter { !$0.isEmpty && $0 != "identity" }
            .map { $0 == "x-gzip" ? "gzip" : $0 }
        head.headers.remove(name: "Content-Encoding")
        if !codings.isEmpty { head.headers.add(name: "Content-Encoding", value: codings.joined(separator: ", ")) }
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }
}

/// Ends a compressed body with its first gzip member: zeros, further members and anything else behind it are ignored.
///
/// The decompressor reports them as an error once it has passed on all of the member. The tokens in it may be had only once; if the
/// member is not the whole document, the document cannot be read, and nothing is lost by that.
final class TrailingDataFilter: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error as? NIOHTTPDecompression.ExtraDecompressionError == .invalidTrailingData { return }
        context.fireErrorCaught(error)
    }
}
