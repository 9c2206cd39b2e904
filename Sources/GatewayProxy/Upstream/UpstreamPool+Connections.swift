import GatewayCore
import NIOCore

/// Opens connections, and learns of their ends.
extension UpstreamPool {
    // MARK: Connections

    func dial(_ id: ConnectionID, for request: ConnectionRequest?) {
        dialer.dial(for: self) { [self] result in
            switch result {
            case .success(.connection(let connection)): dialled(connection, id, for: request)
            case .success(.negotiation(let negotiation)): dialled(negotiation, id, for: request)
            case .failure(let problem):
                lastFailure = problem
                connectionEnded(id)
                request?.finish(.failure(problem))
            }
        }
    }

    private func keep(_ connection: HTTP1UpstreamConnection, _ id: ConnectionID) {
        while connections.count <= id.index { connections.append(nil) }
        connections[id.index] = connection
    }

    private func keep(_ connection: HTTP2UpstreamConnection, _ id: ConnectionID) {
        while sharedConnections.count <= id.index { sharedConnections.append(nil) }
        sharedConnections[id.index] = connection
    }

    private var jitter: UInt64 {
        var random = SystemRandomNumberGenerator()
        return random.next()
    }

    private func dialled(_ negotiation: UpstreamNegotiation, _ id: ConnectionID, for request: ConnectionRequest?) {
        let isOpen = negotiation.begin(as: id) { [self] result in negotiated(result, id, for: request) }
        guard !isOpen else { return }
        lastFailure = HTTP1UpstreamConnection.lost
        connectionEnded(id)
        request?.finish(.failure(HTTP1UpstreamConnection.lost))
    }

    private func negotiated(
        _ result: Result<UpstreamNegotiation.Outcome, GatewayProblem>,
        _ id: ConnectionID,
        for request: ConnectionRequest?
    ) {
        switch result {
        case .failure(let problem):
            // Its end follows.
            lastFailure = problem
            request?.finish(.failure(problem))
        case .success(.http1(let connection)):
            keep(connection, id)
            let step = state.openedAlone(id, jitter: jitter, situation)
            request?.finish(.success(connection))
            run(step)
        case .success(.http2(let connection)):
            keep(connection, id)
            let step = state.openedShared(id, streamLimit: connection.streamLimit, jitter: jitter, situation)
            request?.finish(.success(connection.makeStream()))
            run(step)
        }
    }

    private func dialled(_ connection: HTTP1UpstreamConnection, _ id: ConnectionID, for request: ConnectionRequest?) {
        if connection.begin(as: id, of: request?.owner) {
            keep(connection, id)
        } else {
            connectionEnded(id)
        }
        connection.whenReady(origin: target.origin) { [self] result in
            if case .success = result { state.opened(id, jitter: jitter, at: now) }
            request?.finish(result)
        }
    }

    /// The connection is closed, or could not be opened. Its place is free.
    func connectionEnded(_ id: ConnectionID) {
        if connection(id)?.id == id { connections[id.index] = nil }
        if sharedConnection(id)?.id == id { sharedConnections[id.index] = nil }
        run(state.ended(id, situation))
    }

    // MARK: Streams

    /// The request of a stream is over.
    func streamEnded(_ connection: HTTP2UpstreamConnection) {
        var answer = state.streamEnded(connection.id, situation)
        if case .offer = answer {
            guard !yieldsConnection(isIdle: false) else { return connection.close() }
            answer = state.putBack(connection.id, wasOffered: true, situation)
        }
        switch answer {
        case .goOn(let servesLater): if servesLater { serveLater() }
        case .rest(let end, let servesLater):
            connection.rest(until: NIODeadline(end))
            if servesLater { serveLater() }
        case .close, .offer: connection.close()
        }
    }

    func streamLimitChanged(_ id: ConnectionID, to limit: Int) {
        run(state.streamLimitChanged(id, to: limit, situation))
    }

    /// The upstream takes no more streams on the connection.
    func retire(_ connection: HTTP2UpstreamConnection) {
        if state.retireConnection(connection.id) { connection.close() }
    }
}
