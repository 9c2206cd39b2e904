/// HTTP/2 connections: many requests share one.
///
///     opening ──▶ shared ◀──▶ idle
///                   │ GOAWAY, age
///                   ▼
///                retiring ──▶ (closed)
///
/// Streams do not count as connections of a client (``ClientLeases``): those that wait take turns, and a stream is short.
extension PoolState {
    /// The requests on an HTTP/2 connection.
    struct Streams: Hashable, Sendable {
        var count: Int32
        /// What the upstream allows, and no more than the rules do. It may fall below ``count``.
        var limit: Int32

        var hasRoom: Bool { count < limit }
    }

    // MARK: The life of a connection

    /// The connection is open and speaks HTTP/2. The request that it was opened for has its first stream.
    ///
    /// - Parameter streamLimit: What the upstream allows.
    package mutating func openedShared(
        _ id: ConnectionID,
        streamLimit: Int,
        jitter: UInt64,
        _ situation: PoolSituation
    ) -> PoolStep {
        guard isInPhase(.opening, id) else { return .nothing }
        begin(id, as: .shared, jitter: jitter, at: situation.now)
        endLease(id.index)
        let streams = Streams(count: 1, limit: allowed(streamLimit))
        connections[id.index].streams = streams
        shared.append(id.slot)
        speaksHTTP1 = false
        wantsTurn = true
        return next(situation)
    }

    /// The connection is open and speaks HTTP/1, where it could have been HTTP/2: those that waited for it need others.
    package mutating func openedAlone(_ id: ConnectionID, jitter: UInt64, _ situation: PoolSituation) -> PoolStep {
        opened(id, jitter: jitter, at: situation.now)
        wantsTurn = true
        return next(situation)
    }

    /// The upstream allows another number of streams.
    package mutating func streamLimitChanged(_ id: ConnectionID, to limit: Int, _ situation: PoolSituation) -> PoolStep
    {
        guard isKnown(id), connections[id.index].streams != nil else { return .nothing }
        let limit = allowed(limit)
        connections[id.index].streams?.limit = limit
        wantsTurn = true
        return next(situation)
    }

    /// The upstream takes no more streams on the connection (GOAWAY).
    ///
    /// - Returns: Whether the connection has no streams and is to be closed.
    package mutating func retireConnection(_ id: ConnectionID) -> Bool {
        guard isKnown(id), let streams = connections[id.index].streams else { return false }
        if removeIdle(id) { return true }
        if connections[id.index].phase == .shared { retireShared(id.slot) }
        checkInvariants()
        return streams.count == 0
    }

    private func allowed(_ limit: Int) -> Int32 { Int32(clamping: min(limit, rules.maximumStreams)) }

    private func isKnown(_ id: ConnectionID) -> Bool {
        id.index < connections.count && connections[id.index].number == id.number
            && connections[id.index].phase != .none
    }

    mutating func removeFromShared(_ slot: Int32) {
        if let place = shared.firstIndex(of: slot) { shared.remove(at: place) }
    }

    private mutating func retireShared(_ slot: Int32) {
        removeFromShared(slot)
        connections[Int(slot)].phase = .retiring
    }

    // MARK: Streams

    /// A stream for a request that has just come. nil while requests wait that can be served, or where no connection has room.
    @inline(__always)
    package mutating func takeStream(at now: MonotonicTime) -> ConnectionID? {
        guard rules.opensOneAtATime, isOpenToNewcomers else { return nil }
        return leaseStream(at: now) ?? leaseIdleStream(at: now)
    }

    /// A stream for a request that lost its connection. It goes before those that wait.
    package mutating func takeUrgentStream(at now: MonotonicTime) -> ConnectionID? {
        rules.opensOneAtATime ? leaseStream(at: now) : nil
    }

    /// The connection that has been open for longest goes first, so that the others can rest.
    mutating func leaseStream(at now: MonotonicTime) -> ConnectionID? {
        defer { checkInvariants() }
        var index = 0
        while index < shared.count {
            let slot = Int(shared[index])
            guard now < connections[slot].endsAt else {
                retireShared(Int32(slot))
                continue
            }
            if connections[slot].streams?.hasRoom ?? false {
                connections[slot].streams?.count += 1
                return ConnectionID(slot: Int32(slot), number: connections[slot].number)
            }
            index += 1
        }
        return nil
    }

    private mutating func leaseIdleStream(at now: MonotonicTime) -> ConnectionID? {
        guard let slot = idle.last, let streams = connections[Int(slot)].streams, streams.hasRoom,
            now < connections[Int(slot)].restsUntil
        else { return nil }
        idle.removeLast()
        beginSharing(slot)
        return ConnectionID(slot: slot, number: connections[Int(slot)].number)
    }

    /// The connection has rested, and has a stream now.
    ///
    /// - Returns: Whether it is an HTTP/2 connection.
    @discardableResult
    mutating func beginSharing(_ slot: Int32) -> Bool {
        guard connections[Int(slot)].streams != nil else { return false }
        connections[Int(slot)].streams?.count = 1
        connections[Int(slot)].phase = .shared
        shared.append(slot)
        checkInvariants()
        return true
    }

    /// The request of a stream is over.
    ///
    /// - Parameter wasOffered: As of ``putBack(_:keepAliveSeconds:wasOffered:_:)``.
    package mutating func streamEnded(_ id: ConnectionID, _ situation: PoolSituation) -> PoolReturn {
        guard isKnown(id), let streams = connections[id.index].streams, streams.count > 0 else { return .close }
        connections[id.index].streams?.count -= 1
        defer { checkInvariants() }
        guard streams.count == 1 else { return .goOn(servesLater: needsTurn(situation)) }
        guard connections[id.index].phase == .shared else { return .close }
        removeFromShared(id.slot)
        connections[id.index].phase = .leased
        return putBack(id, situation)
    }

    // MARK: Opening

    /// A connection may be opened for one more request.
    var mayOpen: Bool { !rules.opensOneAtATime || speaksHTTP1 || openingCount == 0 }

    /// The next one of those that waited for a connection which could not be opened.
    mutating func nextFailing() -> WaiterTicket? {
        failingWaiters -= 1
        guard let (ticket, _) = waiters.first(where: { _ in true }) else {
            failingWaiters = 0
            return nil
        }
        waiters.pop(ticket)
        return ticket
    }
}
