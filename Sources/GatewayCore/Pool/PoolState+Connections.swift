/// The connections of a pool, from their opening to their end.
extension PoolState {
    struct Connection: Sendable {
        enum Phase: Sendable {
            case none
            case opening
            case leased
            /// HTTP/2 with at least one stream, and open to more.
            case shared
            /// HTTP/2 with at least one stream, and not open to more.
            case retiring
            case idle
            /// Private, and without a request.
            case kept
        }

        var number: UInt32 = 0
        var phase = Phase.none
        /// That has it in use, also while it is kept.
        var client = PoolClient.uncounted
        var restsSince = MonotonicTime.never
        /// It is not used from then on.
        var restsUntil = MonotonicTime.never
        var endsAt = MonotonicTime.never
        /// Of an HTTP/2 connection: its streams, and how many there may be. nil of an HTTP/1 connection.
        var streams: Streams?

        /// In one access to the array.
        mutating func rest(_ phase: Phase, from now: MonotonicTime, until end: MonotonicTime) {
            self.phase = phase
            restsSince = now
            restsUntil = end
        }
    }

    /// The place of a connection that is to be opened.
    enum Place: Sendable {
        case none
        case asked
        /// The budget has promised it: a connection is being closed for it.
        case onItsWay
    }

    /// An idle or kept connection is about to be closed: the time of ``PoolReturn/rest(until:servesLater:)`` has come, or bytes have come
    /// that were not asked for.
    ///
    /// - Returns: Whether it was idle.
    @discardableResult
    package mutating func removeIdle(_ id: ConnectionID) -> Bool {
        defer { checkInvariants() }
        if takePrivate(id) { return true }
        guard isInPhase(.idle, id) else { return false }
        removeFromIdle(id.slot)
        connections[id.index].phase = .leased
        return true
    }

    /// The connection is open, and leased to the request that it was opened for.
    ///
    /// - Parameter jitter: A random number. It takes up to a tenth off the life of the connection, so that those which were
    ///   opened together do not end together.
    package mutating func opened(_ id: ConnectionID, jitter: UInt64, at now: MonotonicTime) {
        guard isInPhase(.opening, id) else { return }
        begin(id, as: .leased, jitter: jitter, at: now)
        speaksHTTP1 = true
        checkInvariants()
    }

    mutating func begin(_ id: ConnectionID, as phase: Connection.Phase, jitter: UInt64, at now: MonotonicTime) {
        openingCount -= 1
        connections[id.index].phase = phase
        connections[id.index].endsAt = ConnectionAge.end(rules.maximumAge, jitter: jitter, from: now)
    }

    /// The connection has ended, or could not be opened.
    package mutating func ended(_ id: ConnectionID, _ situation: PoolSituation) -> PoolStep {
        guard id.index < connections.count, connections[id.index].number == id.number,
            connections[id.index].phase != .none
        else { return .nothing }
        defer { checkInvariants() }
        removeIdle(id)
        let wasOpening = connections[id.index].phase == .opening
        if wasOpening { openingCount -= 1 }
        if connections[id.index].phase == .shared { removeFromShared(id.slot) }
        endLease(id.index)
        connections[id.index].phase = .none
        connections[id.index].streams = nil
        connections[id.index].number &+= 1
        freeSlots.append(id.slot)
        placeCount -= 1
        // Which clients are over their share may have changed.
        if leases.isShared { wantsTurn = true }
        if rules.opensOneAtATime {
            wantsTurn = true
            if wasOpening, !speaksHTTP1 { failingWaiters = waiterCount }
        }
        return .giveBackPlace
    }

    /// A place has been granted for it.
    mutating func newConnection(for client: PoolClient) -> ConnectionID {
        let slot = freeSlots.popLast() ?? Int32(truncatingIfNeeded: connections.count)
        if Int(slot) == connections.count { connections.append(Connection()) }
        assert(connections[Int(slot)].phase == .none, "A connection is opened in the slot of another one.")
        connections[Int(slot)].phase = .opening
        connections[Int(slot)].endsAt = .never
        openingCount += 1
        lease(slot, to: client)
        return ConnectionID(slot: slot, number: connections[Int(slot)].number)
    }

    func isInPhase(_ phase: Connection.Phase, _ id: ConnectionID) -> Bool {
        id.index < connections.count && connections[id.index].number == id.number
            && connections[id.index].phase == phase
    }

    private mutating func removeFromIdle(_ slot: Int32) {
        if let place = idle.lastIndex(of: slot) { idle.remove(at: place) }
    }
}
