import GatewayTokens
import NIOCore
import NIOHTTP1
import NIOHTTPCompression

/// Gathers one answer within its limit.
struct AnswerCollector {
    /// Why an answer is not read to its end.
    enum Refusal: Error {
        case tooLarge
        /// In an encoding that cannot be decoded here.
        case encoded
        case noHead
    }

    /// Those that the decompressor has removed before the body gets here.
    private static let encodings: Set<String> = ["gzip", "deflate"]

    /// The others that servers use (IANA's registry). What else stands in the field is not repeated.
    private static let unreadable: Set<String> = ["br", "zstd", "compress", "x-compress", "exi", "dcb", "dcz"]

    private let limitBytes: Int
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []
    /// The content codings of the response, by the names that are safe to show; nil if it has none.
    private(set) var codings: String?

    init(limitBytes: Int) { self.limitBytes = limitBytes }

    /// If not, only the end of the connection shows that the response is complete.
    var saysItsLength: Bool {
        head.map { $0.headers.contains(name: "Content-Length") || $0.headers.contains(name: "Transfer-Encoding") }
            ?? false
    }

    mutating func receive(_ head: HTTPResponseHead) throws(Refusal) {
        let encodings = head.headers[canonicalForm: "Content-Encoding"].map { $0.lowercased() }
        let names = encodings.map { Self.encodings.union(Self.unreadable).contains($0) ? $0 : "unknown" }
        if !names.isEmpty { codings = names.prefix(4).joined(separator: ", ") }
        guard encodings.isEmpty || encodings.count == 1 && Self.encodings.contains(encodings[0]) else { throw .encoded }
        if let length = head.headers.first(name: "Content-Length").flatMap({ Int($0) }), length > limitBytes {
            throw .tooLarge
        }
        self.head = head
    }

    mutating func receive(_ bytes: ByteBuffer) throws(Refusal) {
        guard body.count + bytes.readableBytes <= limitBytes else { throw .tooLarge }
        body.append(contentsOf: bytes.readableBytesView)
    }

    var reply: TokenReply {
        get throws(Refusal) {
            guard let head else { throw .noHead }
            return TokenReply(
                status: Int(head.status.code),
                fields: head.headers.map { TokenReply.Field(name: $0.name, value: $0.value) },
                body: body
            )
        }
    }
}

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
/// The decompressor reports them as an error once it has passed on all of the member. The server may send the
/// tokens in it only once; if the member is not the whole document, the document cannot be read, and nothing is lost by that.
final class TrailingDataFilter: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error as? NIOHTTPDecompression.ExtraDecompressionError == .invalidTrailingData { return }
        context.fireErrorCaught(error)
    }
}

/// Ends a connection that sends more than an answer can be: framing and interim answers have no limit elsewhere.
final class InboundLimit: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var remainingBytes: Int

    /// - Parameter bytes: For the whole life of the connection, TLS included.
    init(bytes: Int) { remainingBytes = bytes }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard remainingBytes >= 0 else { return }
        remainingBytes -= unwrapInboundIn(data).readableBytes
        guard remainingBytes >= 0 else {
            context.fireErrorCaught(AnswerCollector.Refusal.tooLarge)
            context.close(promise: nil)
            return
        }
        context.fireChannelRead(data)
    }
}
