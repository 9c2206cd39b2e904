import GatewayCore
import NIOCore

/// CONNECT to a server that no route leads to.
extension HTTP1ClientConnection {
    /// - Parameter isEstablished: The client was told that its CONNECT was taken, and can be told nothing else.
    func openTunnel(to destination: TunnelDestination, isEstablished: Bool = false) {
        let usage = shared.usage(of: destination.client)
        if let problem = usage?.refusal(at: shared.clock.monotonic()) {
            let refusal = shared.authorizer.refusal(problem, on: identity, client: destination.client)
            return isEstablished ? closeNow() : refuse(problem, refusal)
        }
        phase = .dialling
        // The answer of the dialler comes before.
        setDeadline(timeouts.connect + timeouts.linger)
        let tunnel = ConnectTunnel(to: destination, of: self, countedBy: usage, isEstablished: isEstablished)
        TunnelDialer(to: destination, of: configuration.worker, under: shared)
            .dial { [self] result in
                switch result {
                case .success(let connection): begin(tunnel, on: connection)
                case .failure(let problem): fail(tunnel, with: problem)
                }
            }
    }

    private func fail(_ tunnel: ConnectTunnel, with problem: GatewayProblem) {
        guard phase == .dialling else { return tunnel.fail(with: nil) }
        let subject = ProblemSubject(
            requestID: tunnel.requestID,
            disclosesNames: shared.authorizer.disclosesNames(to: tunnel.destination.client, on: identity)
        )
        tunnel.fail(with: problem)
        guard !tunnel.isEstablished else { return closeNow() }
        respond(with: problem, as: subject, requestIsComplete: true)
    }

    private func begin(_ tunnel: ConnectTunnel, on connection: TunnelDialer.Connection) {
        guard phase == .dialling, let context, !isEnding, connection.channel.isActive,
            tunnel.mayOpen(to: connection.dialled)
        else {
            connection.end.cut()
            return fail(tunnel, with: Self.ending)
        }
        let client = TunnelEnd(hasDirectSocket: hasDirectSocket)
        guard let handOver = try? HandlerSwap(from: context, to: [client]) else {
            connection.end.cut()
            return fail(tunnel, with: Self.ending)
        }
        if !tunnel.isEstablished { writer.send(Self.established) }
        // Sending finds out that a client has gone.
        guard phase == .dialling, context.channel.isActive else {
            connection.end.cut()
            return tunnel.fail(with: nil)
        }
        let rest = reader.takeAll()
        tunnel.open(between: client, and: connection.end, places: handOverPlaces())
        hand(over: context)
        handOver.finish(replaying: rest)
        if clientHasClosedOutput { client.inputEnded() }
        connection.end.resumeReading()
    }
}
