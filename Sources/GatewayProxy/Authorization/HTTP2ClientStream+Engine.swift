import GatewayCore
import NIOCore
import NIOHPACK

/// A stream on which an engine asks. It has no exchange: nothing goes to an upstream.
///
/// Content of a request is thrown away. That of a call of gRPC is the question.
extension HTTP2ClientStream: CheckStream {
    func answerEngine(_ name: String) {
        guard let engine = connection.shared.engines[name] else {
            return refuse(GatewayProblem(.draining, "The engine is no longer configured."))
        }
        let exchange = AuthorizationExchange(engine, on: self, under: connection.configuration)
        authorization = exchange
        guard isCall, exchange.isProven else { return exchange.begin() }
        if let problem = refusal(of: engine) { return exchange.refuse(problem) }
        if question == nil { question = connection.configuration.buffers.empty }
        guard input.hasEnded, let question else { return setDeadline(connection.timeouts.bodyIdle) }
        exchange.begin(question.readableBytesUInt8Span, of: self)
    }

    var isCall: Bool {
        let bytes = request.bytes
        return GRPCStatus.isCall(request.decoder.head, bytes.readableBytesUInt8Span)
    }

    /// Why the method is not served here; nil where it is.
    private func refusal(of engine: AuthzClient) -> GatewayProblem? {
        let bytes = request.bytes
        let path = bytes.readableBytesUInt8Span.string(request.decoder.head.path)
        guard engine.plan.contract == .envoy, path == CheckResponse.path else {
            return GatewayProblem(.methodRefused, "Engines with contract: envoy call \(CheckResponse.path).")
        }
        return nil
    }

    // MARK: Question

    /// - Returns: Whether the content is a part of the question.
    func collect(_ data: ByteBuffer) -> Bool {
        guard let count = question?.readableBytes else { return false }
        guard count + data.readableBytes <= Self.maximumQuestion else {
            question = nil
            authorization?.refuse(GatewayProblem(.contentTooLarge, "A question of an engine has at most 1 MiB."))
            return false
        }
        question?.writeImmutableBuffer(data)
        setDeadline(connection.timeouts.bodyIdle)
        return true
    }

    private static let maximumQuestion = 1_048_576

    /// The question is complete.
    func ask() {
        guard question != nil, !isClosed, let engine = connection.identity.engine else { return }
        timer.clear()
        // A reload may have come since its head.
        connection.takeConfiguration()
        answerEngine(engine)
    }

    /// - Returns: Whether the deadline was for an engine.
    func engineIsLate() -> Bool {
        guard let authorization else { return false }
        if authorization.isWaiting {
            authorization.deadlinePassed()
            return true
        }
        guard question != nil, !input.hasEnded else { return false }
        question = nil
        authorization.refuse(GatewayProblem(.requestTimeout, "The question of the engine took too long."))
        return true
    }

    // MARK: Answer

    func send(_ write: (inout ByteBuffer) -> Void) {
        var text = configuration.buffers.take()
        defer { configuration.buffers.giveBack(text) }
        write(&text)
        text.writeStaticString("\r\n")
        guard let head = HTTP2Messages.response(text, isSecret: true, within: connection.maximumFrame) else {
            return refuse(GatewayProblem(.internalError, "The fields of the credential are too long for HTTP/2."))
        }
        output.head = head
        end()
    }

    func send(message: ByteBuffer) {
        output.head = [":status": "200", "content-type": "application/grpc"]
        output.bytes = message
        output.trailers = ["grpc-status": "0"]
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
