import GatewayCore
import NIOCore

/// What the engine is told.
extension AuthorizationExchange {
    // MARK: The credential

    func answer(
        _ admitted: RequestAuthorizer.Admitted,
        by route: CredentialedRoute,
        from source: any CredentialSource
    ) {
        guard let answer = route.answer(to: engine, from: source), let credential = route.credential else {
            let detail =
                "The credential \(source.name) is not in header fields alone, which is all that an engine can be handed."
            return refuse(GatewayProblem(.credentialMisconfigured, detail), of: admitted)
        }
        if !answer.isNoted {
            answer.isNoted = true
            source.note(.handedOut, generation: credential.generation, by: credentialRequest(of: admitted))
        }
        if rejection == nil {
            let bytes = original.bytes
            route.handedOut(decoder.head, bytes.span, at: startedAt)
        }
        var record = record(rejection ?? .handedOut)
        record.route = shared.routes[admitted.match.route].number
        record.client = admitted.client
        record.status = 200
        record.credential = credential
        shared.observer.finished(record)
        // The last step: it may end the stream, and with that its memory, or begin with the next request of the connection.
        if let check {
            check.send(message: answer.message.withValue { ByteBuffer(bytes: $0) })
        } else {
            send(answer, for: route.state.route, keptFor: secondsToKeep(credential))
        }
    }

    /// - Parameter seconds: 0 keeps none.
    private func send(_ answer: EngineAnswer, for route: CompiledRoute, keptFor seconds: Int64) {
        let date = configuration.worker.dateLine(at: shared.clock.now().wall)
        stream.send { out in
            out.writeStaticString("HTTP/1.1 200 OK\r\n")
            out.writeBytes(date)
            answer.lines.withValue { _ = out.writeBytes($0) }
            if seconds > 0 {
                out.writeString("X-Accel-Expires: \(seconds)\r\nCache-Control: private, max-age=\(seconds)\r\n")
                out.writeString(engine.vary)
                for name in route.judgedNames {
                    out.writeStaticString(", ")
                    out.writeBytes(name)
                }
                out.writeStaticString("\r\n")
            } else {
                out.writeStaticString("Cache-Control: no-store\r\n")
            }
        }
    }

    /// No longer than the credential is valid, and no fraction of a second.
    private func secondsToKeep(_ credential: Credential) -> Int64 {
        guard let cache = engine.plan.cache else { return 0 }
        let rest = credential.expiresAt.map { min($0 - startedAt, cache) } ?? cache
        return max(0, rest.components.seconds)
    }

    func credentialRequest(of admitted: RequestAuthorizer.Admitted) -> CredentialRequest {
        let bytes = original.bytes
        return CredentialRequest(
            route: shared.routes[admitted.match.route].plan.name,
            client: admitted.client,
            requestID: id.description,
            clientRequestID: ClientRequestID.read(from: decoder.head, bytes.span),
            engine: engine.plan.name
        )
    }

    // MARK: Problems

    func withhold(
        _ problem: GatewayProblem,
        from source: any CredentialSource,
        of admitted: RequestAuthorizer.Admitted
    ) {
        source.note(.withheld, generation: 0, by: credentialRequest(of: admitted))
        refuse(problem, of: admitted)
    }

    func refuse(_ problem: GatewayProblem, of admitted: RequestAuthorizer.Admitted) {
        refuse(
            problem,
            route: shared.routes[admitted.match.route],
            client: admitted.client,
            disclosesNames: admitted.disclosesNames
        )
    }

    func refuse(_ problem: GatewayProblem, _ refusal: RequestAuthorizer.Refusal? = nil) {
        refuse(
            problem,
            route: refusal?.route.map { shared.routes[$0] },
            client: refusal?.client,
            disclosesNames: refusal?.disclosesNames ?? false
        )
    }

    private func refuse(_ problem: GatewayProblem, route: CompiledRoute?, client: String?, disclosesNames: Bool) {
        let status = engine.plan.contract.status(of: problem.kind)
        var record = record(AuthzOutcome.Outcome(problem.kind))
        record.route = route?.number
        record.client = client
        record.status = status
        record.problem = problem.kind
        record.failure = RequestFailure(problem, credential: route?.credentialName, place: place)
        shared.observer.finished(record)
        let subject = ProblemSubject(requestID: id, route: route, disclosesNames: disclosesNames)
        var form = ProblemAnswer.Form(omitsBody: stream.request.decoder.head.isHead, status: status)
        guard check == nil else {
            let denied = CheckResponse.denied(shared.answer(problem, to: subject, in: form), problem.kind)
            check?.send(message: ByteBuffer(bytes: denied))
            return
        }
        // Without a message that can be answered, the call fails.
        form.isGRPC = stream.isCall
        stream.send(shared.answer(problem, to: subject, in: form))
    }

    private func record(_ outcome: AuthzOutcome.Outcome) -> ExchangeRecord {
        let bytes = original.bytes
        var record = ExchangeRecord(
            requestID: id,
            clientRequestID: isRead ? ClientRequestID.read(from: decoder.head, bytes.span) : nil,
            worker: configuration.worker.number,
            route: nil,
            client: nil,
            method: isRead ? decoder.head.methodName(bytes.span) : "",
            startedAt: startedAt,
            finishedAt: shared.clock.monotonic()
        )
        record.engine = AuthzOutcome(name: engine.plan.name, outcome: outcome)
        record.isTLS = stream.isTLS
        return record
    }

    private var place: RequestPlace {
        guard isRead else { return RequestPlace(peer: stream.peer) }
        let bytes = original.bytes
        return RequestPlace(decoder.head, bytes.span, peer: stream.peer)
    }
}
