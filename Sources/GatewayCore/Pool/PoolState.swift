/// The state of the connections of one event loop to one upstream, and all decisions about them. Performs nothing, and knows no
/// socket and no clock.
///
/// The shell reports events and carries out what is returned. A connection is opening, leased, idle or kept. A lease begins with
/// ``opened(_:jitter:at:)``, ``take(for:mayRepeat:isOpen:mayHaveInput:at:)`` or ``PoolStep/lease(_:to:)``, and ends with
/// ``putBack(_:keepAliveSeconds:wasOffered:_:)`` or ``ended(_:_:)``. An HTTP/1 connection carries one request at a time, so it is
/// leased as a whole. Of an HTTP/2 connection streams are leased: see ``openedShared(_:streamLimit:jitter:_:)``. A private
/// connection is kept for its client between requests: see ``keepPrivate(_:keepAliveSeconds:_:)`` and ``takePrivate(_:)``.
///
/// A client that has more connections in use than its share waits, although places or idle connections are left: they are for
/// other clients (``FairShare``). It keeps its turn in the queue. All loops count in one account, ``ClientLeases``.
///
/// Taking and putting back are on the path of every request: they allocate nothing. They look nothing up, except that
/// ``client(_:)`` looks up a name where clients have names.
package struct PoolState: ~Copyable, Sendable {
    package struct Rules: Hashable, Sendable {
        package var maximumWaiters: Int
        /// The longest rest of a connection.
        package var idleTimeout: Duration
        /// A client that is over its share notices after this time what has changed on other loops.
        package var shareCheckPeriod: Duration = .milliseconds(100)
        /// The longest life of a connection: after a change of DNS no old address is used for longer.
        package var maximumAge: Duration = .seconds(600)
        /// To look at a connection before its use costs a system call (docs/adr/0067). One that was read empty so short a time
        /// ago is not looked at.
        package var freshness: Duration = .milliseconds(5)
        /// A connection that has rested for less is not given away: the client that was just answered may ask again.
        package var spareAfter: Duration = .milliseconds(10)
        /// The same for a private connection, whose client may be about to answer a challenge.
        package var sparePrivateAfter: Duration = .seconds(2)

        /// Connections may turn out to be HTTP/2: while one is being opened, no other one is, since it may carry all that wait.
        package var opensOneAtATime = false
        /// Requests at one time on an HTTP/2 connection, whatever the upstream allows.
        package var maximumStreams = 100

        package init(maximumWaiters: Int, idleTimeout: Duration) {
            self.maximumWaiters = maximumWaiters
            self.idleTimeout = idleTimeout
        }
    }

    let rules: Rules
    /// In nanoseconds: to take a `Duration` apart is a long division.
    private let freshness: Int64
    private let idleTime: Int64
    var connections: [Connection] = []
    var freeSlots: [Int32] = []
    /// The most recently used last: it is the least likely to have been closed meanwhile.
    var idle: [Int32] = []
    /// The private ones without a request. The one that has rested longest first.
    var kept: [Int32] = []
    var waiters: FairQueue<Newcomer>
    let leases: ClientLeases
    /// At the last look the client of each waiter was over its share. What changes that on this loop leads to a turn.
    var areWaitersBlocked = false
    /// Connections open or being opened, and a place that is not used yet.
    package internal(set) var placeCount = 0
    var place = Place.none
    /// The pool has got a place that it waited for, and no request has taken it yet.
    var hasGrant = false
    /// The budget knows this pool.
    var isInBudget = false
    /// The request that waits for the answer of the budget.
    var newcomer: Newcomer?
    var isTurnScheduled = false
    var isInTurn = false
    var wantsTurn = false
    var isSparing = false
    var isSpareScheduled = false
    package internal(set) var isRetired = false
    /// HTTP/2 connections in the phase `shared`, the oldest first.
    var shared: [Int32] = []
    var openingCount = 0
    /// The last connection was an HTTP/1 connection: one that is being opened will carry one request.
    var speaksHTTP1 = false
    /// Waiters for whom a connection could not be opened: they waited for the one that failed.
    var failingWaiters = 0

    package init(_ rules: Rules, _ leases: ClientLeases) {
        self.rules = rules
        self.leases = leases
        freshness = rules.freshness.wholeNanoseconds
        // So that no sum with it overflows.
        idleTime = min(rules.idleTimeout.wholeNanoseconds, 1 << 61)
        waiters = FairQueue(limit: rules.maximumWaiters)
        idle.reserveCapacity(64)
    }

    package var idleCount: Int { idle.count }
    package var waiterCount: Int { waiters.count }

    // MARK: Taking

    /// The client in the account.
    package func client(_ name: String?) -> PoolClient { leases.client(name) }

    /// The connection that ``take(for:mayRepeat:isOpen:mayHaveInput:at:)`` is about. nil while requests wait that can be served: they
    /// go first. nil for a client that is over its share.
    @inline(__always)
    package func next(for client: PoolClient) -> ConnectionID? {
        guard isOpenToNewcomers, leases.allowsOneMore(client) else { return nil }
        return latest
    }

    /// No waiter can be served before a request that has just come.
    @inline(__always)
    var isOpenToNewcomers: Bool { waiters.isEmpty || areWaitersBlocked && !isTurnScheduled }

    /// The idle connection that was used last.
    package var latest: ConnectionID? {
        guard let slot = idle.last else { return nil }
        return ConnectionID(slot: slot, number: connections[Int(slot)].number)
    }

    /// Takes the connection ``next(for:)``, which was open a moment ago. It can still end on first use.
    ///
    /// - Parameters:
    ///   - mayRepeat: The request may be sent again if the connection turns out to have ended. Otherwise it gets no connection that
    ///     was not looked at.
    ///   - isOpen: The connection has not ended.
    ///   - mayHaveInput: There may be bytes behind those that were read last.
    package mutating func take(
        for client: PoolClient,
        mayRepeat: Bool,
        isOpen: Bool,
        mayHaveInput: Bool,
        at now: MonotonicTime
    ) -> IdleConnectionAction {
        defer { checkInvariants() }
        guard let slot = idle.popLast() else { return .gone }
        connections[Int(slot)].phase = .leased
        guard isOpen else { return .gone }
        let (since, until) = (connections[Int(slot)].restsSince, connections[Int(slot)].restsUntil)
        guard now < until else { return .close }
        lease(slot, to: client)
        let isFresh = now.nanoseconds &- since.nanoseconds <= freshness
        return mayRepeat && !mayHaveInput && isFresh ? .lease : .look
    }

    @inline(__always)
    mutating func lease(_ slot: Int32, to client: PoolClient) {
        assert(connections[Int(slot)].client == .uncounted, "A connection is leased to two clients.")
        connections[Int(slot)].client = client
        leases.add(client)
    }

    @inline(__always)
    mutating func endLease(_ slot: Int) {
        leases.remove(connections[slot].client)
        connections[slot].client = .uncounted
    }

    // MARK: Putting back

    /// The request of the connection is over, and it can carry another one.
    ///
    /// - Parameters:
    ///   - keepAliveSeconds: How long the upstream says that it keeps the connection.
    ///   - wasOffered: The budget has been asked whether another loop needs the connection.
    package mutating func putBack(
        _ id: ConnectionID,
        keepAliveSeconds: Int? = nil,
        wasOffered: Bool = false,
        _ situation: PoolSituation
    ) -> PoolReturn {
        defer { checkInvariants() }
        guard isInPhase(.leased, id) else { return .close }
        let (slot, now) = (id.index, situation.now)
        guard now < connections[slot].endsAt else { return .close }
        if situation.othersWait, !wasOffered { return .offer }
        // A request that goes on with the old configuration may wait for it.
        guard !isRetired || !waiters.isEmpty else { return .close }
        let until = endOfRest(slot, keepAliveSeconds, from: now)
        endLease(slot)
        connections[slot].rest(.idle, from: now, until: until)
        idle.append(id.slot)
        return .rest(until: until, servesLater: needsTurn(situation))
    }

    /// The request of a private connection is over. The connection stays with its client, until others have waited for it.
    package mutating func keepPrivate(
        _ id: ConnectionID,
        keepAliveSeconds: Int? = nil,
        _ situation: PoolSituation
    ) -> PoolReturn {
        let now = situation.now
        guard isInPhase(.leased, id), !isRetired, now < connections[id.index].endsAt else { return .close }
        let until = endOfRest(id.index, keepAliveSeconds, from: now)
        connections[id.index].rest(.kept, from: now, until: until)
        kept.append(id.slot)
        checkInvariants()
        return .rest(until: until, servesLater: needsTurn(situation))
    }

    /// The client of a private connection sends another request.
    ///
    /// - Returns: Whether it was kept.
    @discardableResult
    package mutating func takePrivate(_ id: ConnectionID) -> Bool {
        guard isInPhase(.kept, id) else { return false }
        kept.removeAll { $0 == id.slot }
        connections[id.index].phase = .leased
        checkInvariants()
        return true
    }

    @inline(__always)
    private func endOfRest(_ slot: Int, _ keepAliveSeconds: Int?, from now: MonotonicTime) -> MonotonicTime {
        let rest = MonotonicTime(nanoseconds: now.nanoseconds &+ longestRest(keepAliveSeconds))
        return min(rest, connections[slot].endsAt)
    }

    /// Shorter than the time that the upstream announced, so that the gateway closes first and the upstream does not.
    @inline(__always)
    private func longestRest(_ keepAliveSeconds: Int?) -> Int64 {
        guard let keepAliveSeconds else { return idleTime }
        let kept = Int64(min(max(keepAliveSeconds, 0), 1 << 30)) * 1_000_000_000
        return min(idleTime, kept - min(1_000_000_000, kept / 2))
    }
}

// MARK: Invariants

extension PoolState {
    /// What holds after each event, also between two steps.
    func checkInvariants() {
        assert(placeCount == inUse + (hasGrant ? 1 : 0), "The pool has another number of places than it uses.")
        assert(isInBudget || placeCount == 0 && place == .none, "The budget knows nothing of a place.")
        assert(openingCount >= 0 && failingWaiters >= 0, "A count is below zero.")
        assert(idle.count + kept.count + shared.count + openingCount <= inUse, "A connection is in two lists.")
        assert(are(idle, in: .idle) && are(kept, in: .kept), "A connection rests, and is in use.")
        assert(are(shared, in: .shared), "A connection is in the list of those that take streams, and takes none.")
        assert(freeSlots.last.map { are([$0], in: .none) } ?? true, "A connection has a slot that is free.")
        assert(idle.last.map { connections[Int($0)].client == .uncounted } ?? true, "A client uses an idle connection.")
        assert(
            shared.last.map { (connections[Int($0)].streams?.count ?? 0) > 0 } ?? true,
            "A connection without streams is not idle."
        )
        assert(connections.count > 8 || hasEachInItsList, "A connection was lost, or is in a list twice.")
    }

    private var inUse: Int { connections.count - freeSlots.count }

    /// Looks at a few of each end: there may be thousands.
    private func are(_ slots: [Int32], in phase: Connection.Phase) -> Bool {
        slots.prefix(4).allSatisfy { connections[Int($0)].phase == phase }
            && slots.suffix(4).allSatisfy { connections[Int($0)].phase == phase }
    }

    private var hasEachInItsList: Bool {
        count(.none) == freeSlots.count && count(.opening) == openingCount && count(.idle) == idle.count
            && count(.kept) == kept.count && count(.shared) == shared.count
    }

    private func count(_ phase: Connection.Phase) -> Int { connections.count { $0.phase == phase } }

    /// Something that is about to happen leads to the next look at those who wait.
    var isTurnComing: Bool {
        isTurnScheduled || isSpareScheduled || place != .none || openingCount > 0
    }
}

extension MonotonicTime {
    /// Later than every time.
    static let never = MonotonicTime(nanoseconds: .max)
}
