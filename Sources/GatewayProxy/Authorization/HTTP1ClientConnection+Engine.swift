import GatewayCore
import NIOCore

/// A connection on which an engine asks. It has no exchange: nothing goes to an upstream.
extension HTTP1ClientConnection: EngineStream {
    /// An engine has sent a request, and ``request`` has its head.
    ///
    /// - Parameter contentIsRead: All of it.
    func answerEngine(_ name: String, contentIsRead: Bool = false) {
        keepsAlive = request.decoder.head.clientKeepsAlive && !isEnding && !shared.isDraining
        guard let engine = shared.engines[name] else {
            return refuse(GatewayProblem(.draining, "The engine is no longer configured."))
        }
        phase = .exchange
        engineRequestIsComplete = contentIsRead || request.decoder.head.framing == .none
        let exchange =
            authorization.flatMap { $0.configuration === configuration ? $0 : nil }
            ?? AuthorizationExchange(engine, on: self, under: configuration)
        authorization = exchange
        guard !engineRequestIsComplete, exchange.isProven else { return exchange.begin() }
        if request.decoder.head.expectsContinue {
            stage.append { $0.writeStaticString("HTTP/1.1 100 Continue\r\n\r\n") }
            flush()
        }
        engineContent = 0
        setDeadline(timeouts.bodyIdle)
    }

    /// Content means nothing here. It is read, so that the connection can go on behind it.
    func dropEngineContent() -> Bool {
        switch reader.nextPart(forbidden: []) {
        case .content(_, let length, let isLast):
            let count = (engineContent ?? 0) + length
            engineContent = count
            guard count <= Self.maximumEngineContent else {
                endEngineContent(
                    GatewayProblem(.contentTooLarge, "An engine need not send the content of the request.")
                )
                return true
            }
            if isLast { decideBehindContent() }
        case .trailers: decideBehindContent()
        case .needMore: return false
        case .broken, .refusedTrailers:
            endEngineContent(GatewayProblem(.requestRefused, "The content of the engine's request is not valid."))
        }
        return true
    }

    private static let maximumEngineContent = 1_048_576

    private func decideBehindContent() {
        engineContent = nil
        timer.clear()
        decideAgain()
    }

    /// By the configuration of the moment.
    private func decideAgain() {
        if configuration.isReplaced { takeConfiguration() }
        if let engine = identity.engine { answerEngine(engine, contentIsRead: true) }
    }

    private func endEngineContent(_ problem: GatewayProblem) {
        engineContent = nil
        refuse(problem)
    }

    /// The deadline of a request of an engine has passed.
    func engineIsLate() {
        if engineContent != nil {
            endEngineContent(GatewayProblem(.requestTimeout, "The content of the engine's request took too long."))
        } else {
            authorization?.deadlinePassed()
        }
    }

    /// gRPC needs HTTP/2.
    var isCall: Bool { false }

    func send(_ write: (inout ByteBuffer) -> Void) {
        let closes = !keepsAlive || !engineRequestIsComplete
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
        send(problem, closes: !keepsAlive || !engineRequestIsComplete || request.decoder.head.isHTTP10)
    }

    /// - Returns: Whether a reload decides about the request anew.
    func engineFollowsReload() -> Bool {
        guard let authorization, authorization.isWaiting else { return false }
        authorization.cancel()
        decideAgain()
        process()
        return true
    }

    /// An answer that the engine has not taken yet may hold what was withdrawn.
    func engineLosesWithdrawn() {
        guard identity.engine != nil, writer.untakenBytes() > 0 else { return }
        reset()
    }
}
