import GatewayCore
import NIOCore

/// A stream on which an engine asks. It has no exchange: nothing goes to an upstream, and content is thrown away.
extension HTTP2ClientStream: EngineStream {
    func answerEngine(_ name: String) {
        guard let engine = connection.shared.engines[name] else {
            return refuse(GatewayProblem(.draining, "The engine is no longer configured."))
        }
        let exchange = AuthorizationExchange(engine, on: self, under: connection.configuration)
        authorization = exchange
        exchange.begin()
    }

    func send(_ write: (inout ByteBuffer) -> Void) {
        var text = configuration.buffers.take()
        defer { configuration.buffers.giveBack(text) }
        write(&text)
        text.writeStaticString("\r\n")
        guard let head = HTTP2Messages.response(text, isSecret: true) else {
            return refuse(GatewayProblem(.internalError, "The fields of the credential are too long for HTTP/2."))
        }
        output.head = head
        end()
    }

    func engineFollowsReload() {
        guard let authorization, authorization.isWaiting else { return }
        authorization.cancel()
        self.authorization = nil
        connection.takeConfiguration()
        authorize()
    }
}
