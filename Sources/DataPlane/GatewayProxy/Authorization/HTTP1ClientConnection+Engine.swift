import GatewayCore
import NIOCore

/// A connection on which an engine asks. It has no exchange: nothing goes to an upstream.
extension HTTP1ClientConnection: EngineStream {
    /// An engine has sent a request, and ``request`` has its head.
    func answerEngine(_ name: String) {
        keepsAlive = request.decoder.head.clientKeepsAlive && !isEnding && !shared.isDraining
        guard let engine = shared.engines[name] else {
            return refuse(GatewayProblem(.draining, "The engine is no longer configured."))
        }
        phase = .exchange
        let exchange =
            authorization.flatMap { $0.configuration === configuration ? $0 : nil }
            ?? AuthorizationExchange(engine, on: self, under: configuration)
        authorization = exchange
        exchange.begin()
    }

    func send(_ write: (inout ByteBuffer) -> Void) {
        // What comes behind the head is content that nobody reads.
        let closes = !keepsAlive || request.decoder.head.framing != .none
        let isHTTP10 = request.decoder.head.isHTTP10
        stage.append { out in
            write(&out)
            if closes {
                out.writeStaticString("Connection: close\r\n\r\n")
            } else if isHTTP10 {
                out.writeStaticString("Connection: keep-alive\r\n\r\n")
            } else {
                out.writeStaticString("\r\n")
            }
        }
        flush()
        if closes { closeAfterWrites(lingering: true) } else { becomeReady() }
    }

    func send(_ problem: ProblemAnswer) {
        send(problem, closes: !keepsAlive || request.decoder.head.framing != .none || request.decoder.head.isHTTP10)
    }

    /// - Returns: Whether a reload decides about the request anew.
    func engineFollowsReload() -> Bool {
        guard let authorization, authorization.isWaiting else { return false }
        authorization.cancel()
        self.authorization = nil
        takeConfiguration()
        phase = .head
        authorize()
        process()
        return true
    }

    /// An answer that the engine has not taken yet may hold what was withdrawn.
    func engineLosesWithdrawn() {
        guard identity.engine != nil, writer.untakenBytes() > 0 else { return }
        reset()
    }
}
