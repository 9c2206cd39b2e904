import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTPTypes

/// What travels with one request: its connection, so that a switch can cut it, and its number in the journal.
struct SandboxContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel
    var sequence = -1

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }

    /// Closes the connection; the returned answer is dropped.
    func cut() async throws -> Response {
        try? await channel.close()
        return .empty(.internalServerError)
    }
}

/// Answers `Expect: 100-continue` at once; the server below does not.
final class ContinueHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundOut = HTTPResponsePart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head(let head) = unwrapInboundIn(data), head.headerFields[.expect]?.lowercased() == "100-continue" {
            context.writeAndFlush(wrapOutboundOut(.head(HTTPResponse(status: .continue))), promise: nil)
        }
        context.fireChannelRead(data)
    }
}
