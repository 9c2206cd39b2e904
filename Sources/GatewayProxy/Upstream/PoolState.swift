import GatewayHTTP

/// Decides about the connections of one event loop to one upstream: which one a request gets, which requests wait, when one is opened or
/// closed. It performs nothing, and knows no socket and no clock: ``UpstreamPool`` reports events and carries out what is returned.
///
///     HTTP/1:    opening ──▶ leased ◀──▶ idle
///     private:   opening ──▶ leased ◀──▶ kept
///     HTTP/2:    opening ──▶ shared ◀──▶ idle
///                               └──▶ retiring           after GOAWAY or at its age limit
///
/// Every phase ends with ``ended(_:_:)``, which gives the place of the connection back to the budget of all loops.
///
/// - An HTTP/1 connection carries one request at a time, so it is leased as a whole. A lease begins with ``opened(_:jitter:at:)``,
///   ``take(for:mayRepeat:isOpen:mayHaveInput:busySince:at:)`` or ``PoolStep/lease(_:to:)``, and ends with
///   ``putBack(_:keepAliveSeconds:wasOffered:_:)`` or ``ended(_:_:)``.
/// - A private connection is kept for its client between requests: see ``keepPrivate(_:keepAliveSeconds:_:)`` and
///   ``takePrivate(_:)``.
/// - Of an HTTP/2 connection streams are leased: see ``openedShared(_:streamLimit:jitter:_:)``. Each counts for its client until
///   ``streamEnded(_:of:_:)``, which also follows when the connection has ended before.
///
/// A request that finds no connection asks the budget for a place, and opens a connection in it. Without a place it waits in a
/// queue in which clients take turns, until a connection is put back, a place comes or its deadline passes. A client that has more
/// connections or streams in use than its share waits, although places or idle connections are left: they are for other clients
/// (``FairShare``). It keeps its turn in the queue. All loops count in one account, ``ClientLeases``.
///
/// Taking and putting back are on the path of every request: they allocate nothing. They look nothing up, except that
/// ``client(_:)`` looks up a name where clients have names.
struct PoolState: ~Copyable, Sendable {
    struct Rules: Hashable, Sendable {
        var maximumWaiters: Int
        /// The longest rest of a connection.
        var idleTimeout: Duration
        /// A client that is over its share notices after this time what has changed on other loops.
        var shareCheckPeriod: Duration = .milliseconds(100)
        /// The longest life of a connection: after a change of DNS no old address is used for longer.
        var maximumAge: Duration = .seconds(600)
        /// To look at a connection before its use costs a system call (docs/internals/adr/0025, 0057). One that was read empty so short a time
        /// ago is not looked at, nor is one that was in the last two turns of a loop that does not rest.
        var freshness: Duration = .milliseconds(5)
        /// A connection that has rested for less is not given away: the client that was just answered may ask again.
        var spareAfter: Duration = .milliseconds(10)
        /// The same for a private connection, whose client may be about to answer a challenge.
        var sparePrivateAfter: Duration = .seconds(2)

        /// Connections may turn out to be HTTP/2: while one is being opened, no other one is, since it may carry all that wait.
        var opensOneAtATime = false
        /// Requests at one time on an HTTP/2 connection, whatever the upstream allows.
        var maximumStreams = 100
    }

    fileprivate struct Connection: Sendable {
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
        /// The client that has it in use, also while it is kept. One that is opened for a stream counts as that stream.
        var client = PoolClient.uncounted
        var lease = ClientLeases.Lease.connection
        var restsSince = MonotonicTime.never
        /// It is not used from then on.
        var restsUntil = MonotonicTime.never
        var endsAt = MonotonicTime.never
        /// The streams of an HTTP/2 connection, and how many there may be. nil for an HTTP/1 connection.
        var streams: Streams?

        /// Changes all of it in one access to the array.
        mutating func rest(_ phase: Phase, from now: MonotonicTime, until end: MonotonicTime) {
            self.phase = phase
            restsSince = now
            restsUntil = end
        }
    }

    /// The place of a connection that is to be opened.
    fileprivate enum Place: Sendable {
        case none
        case asked
        /// The budget has promised it: a connection is being closed for it.
        case onItsWay
    }

    /// The requests on an HTTP/2 connection.
    fileprivate struct Streams: Hashable, Sendable {
        var count: Int32
        /// What the upstream allows, and no more than the rules do. It may fall below ``count``.
        var limit: Int32
        /// Streams that are left on a connection that is retiring, so that no request gets them.
        var unusable: Int32 = 0

        var hasRoom: Bool { count < limit }
    }

    /// A request that needs a connection and has found none.
    fileprivate struct Newcomer: Sendable {
        let name: String?
        let client: PoolClient
        let isUrgent: Bool
        let isPrivate: Bool

        /// No connection that was open already.
        var needsNew: Bool { isUrgent || isPrivate }
    }

    private let rules: Rules
    /// ``Rules/freshness`` in nanoseconds: to take a `Duration` apart is a long division.
    private let freshness: Int64
    private let idleTime: Int64
    private var connections: [Connection] = []
    private var freeSlots: [Int32] = []
    /// The most recently used last: it is the least likely to have been closed meanwhile.
    private var idle: [Int32] = []
    /// The private ones without a request. The one that has rested longest first.
    private(set) var kept: [Int32] = []
    private var waiters: FairQueue<Newcomer>
    private let leases: ClientLeases
    /// At the last look the client of each waiter was over its share. What changes that on this loop leads to a turn.
    private var areWaitersBlocked = false
    /// Connections open or being opened, and a place that is not used yet.
    private(set) var placeCount = 0
    private var place = Place.none
    /// The pool has got a place that it waited for, and no request has taken it yet.
    private var hasGrant = false
    /// The budget knows this pool.
    private var isInBudget = false
    /// The request that waits for the answer of the budget.
    private var newcomer: Newcomer?
    /// ``PoolStep/serveLater`` was returned, and ``serve(_:)`` is to come.
    private var isTurnScheduled = false
    /// Waiters are being served, one step after the other.
    private var isInTurn = false
    /// Something has happened that may let a waiter be served: the event ends with ``PoolStep/serveLater``.
    private var wantsTurn = false
    /// Idle connections are being given to other loops, one step after the other.
    private var isSparing = false
    /// ``PoolStep/spareLater(_:)`` was returned, and ``spareTimePassed(_:)`` is to come.
    private var isSpareScheduled = false
    private var isRetired = false
    /// HTTP/2 connections in the phase `shared`, the oldest first.
    private var shared: [Int32] = []
    private var openingCount = 0
    /// The last connection was an HTTP/1 connection: one that is being opened will carry one request.
    private var speaksHTTP1 = false
    /// Waiters for whom a connection could not be opened: they waited for the one that failed.
    private var failingWaiters = 0

    init(_ rules: Rules, _ leases: ClientLeases) {
        self.rules = rules
        self.leases = leases
        freshness = rules.freshness.wholeNanoseconds
        // So that no sum with it overflows.
        idleTime = min(rules.idleTimeout.wholeNanoseconds, 1 << 61)
        waiters = FairQueue(limit: rules.maximumWaiters)
        idle.reserveCapacity(64)
    }

    var idleCount: Int { idle.count }
    var waiterCount: Int { waiters.count }

    // MARK: Taking

    /// The client in the account.
    func client(_ name: String?) -> PoolClient { leases.client(name) }

    /// The connection that ``take(for:mayRepeat:isOpen:mayHaveInput:busySince:at:)`` is about. nil while requests wait that can be
    /// served: they go first. nil for a client that is over its share.
    @inline(__always)
    func next(for client: PoolClient) -> ConnectionID? {
        guard isOpenToNewcomers, leases.allowsOneMore(client) else { return nil }
        return latest
    }

    /// No waiter can be served before a request that has just come.
    @inline(__always)
    private var isOpenToNewcomers: Bool { waiters.isEmpty || areWaitersBlocked && !isTurnScheduled }

    /// The idle connection that was used last.
    var latest: ConnectionID? {
        guard let slot = idle.last else { return nil }
        return id(of: slot)
    }

    @inline(__always)
    private func id(of slot: Int32) -> ConnectionID { ConnectionID(slot: slot, number: connections[Int(slot)].number) }

    /// Takes the connection ``next(for:)``, which was open a moment ago. It can still end on first use.
    ///
    /// - Parameters:
    ///   - mayRepeat: The request may be sent again if the connection turns out to have ended. Otherwise it gets no connection that
    ///     was not looked at.
    ///   - isOpen: The connection has not ended.
    ///   - mayHaveInput: There may be bytes behind those that were read last.
    ///   - busySince: When the turn of the loop before this one began; nil where the loop has rested since.
    mutating func take(
        for client: PoolClient,
        mayRepeat: Bool,
        isOpen: Bool,
        mayHaveInput: Bool,
        busySince: MonotonicTime?,
        at now: MonotonicTime
    ) -> IdleConnectionAction {
        defer { checkInvariants() }
        guard let slot = idle.popLast() else { return .gone }
        connections[Int(slot)].phase = .leased
        guard isOpen else { return .gone }
        let (since, until) = (connections[Int(slot)].restsSince, connections[Int(slot)].restsUntil)
        guard now < until else { return .close }
        lease(slot, to: client)
        var isFresh = now.nanoseconds &- since.nanoseconds <= freshness
        if let busySince, since >= busySince { isFresh = true }
        return mayRepeat && !mayHaveInput && isFresh ? .lease : .look
    }

    @inline(__always)
    private mutating func lease(_ slot: Int32, to client: PoolClient, as lease: ClientLeases.Lease = .connection) {
        assert(connections[Int(slot)].client == .uncounted, "A connection is leased to two clients.")
        connections[Int(slot)].client = client
        connections[Int(slot)].lease = lease
        leases.add(client, lease)
    }

    @inline(__always)
    private mutating func endLease(_ slot: Int) {
        leases.remove(connections[slot].client, connections[slot].lease)
        connections[slot].client = .uncounted
    }

    // MARK: Putting back

    /// The request of the connection is over, and it can carry another one.
    ///
    /// - Parameters:
    ///   - keepAliveSeconds: How long the upstream says that it keeps the connection.
    ///   - wasOffered: The budget has been asked whether another loop needs the connection.
    mutating func putBack(
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
    mutating func keepPrivate(
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
    mutating func takePrivate(_ id: ConnectionID) -> Bool {
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

// MARK: Connections, from their opening to their end

extension PoolState {
    /// An idle or kept connection is about to be closed: the time of ``PoolReturn/rest(until:servesLater:)`` has come, or bytes have come
    /// that were not asked for.
    ///
    /// - Returns: Whether it was idle.
    @discardableResult
    mutating func removeIdle(_ id: ConnectionID) -> Bool {
        defer { checkInvariants() }
        if takePrivate(id) { return true }
        guard isInPhase(.idle, id) else { return false }
        if let place = idle.lastIndex(of: id.slot) { idle.remove(at: place) }
        connections[id.index].phase = .leased
        return true
    }

    /// The connection is open, and leased to the request that it was opened for.
    ///
    /// - Parameter jitter: A random number. It takes up to a tenth off the life of the connection, so that those which were
    ///   opened together do not end together.
    mutating func opened(_ id: ConnectionID, jitter: UInt64, at now: MonotonicTime) {
        guard isInPhase(.opening, id) else { return }
        begin(id, as: .leased, jitter: jitter, at: now)
        if connections[id.index].lease == .stream {
            let client = connections[id.index].client
            endLease(id.index)
            lease(id.slot, to: client)
        }
        speaksHTTP1 = true
        checkInvariants()
    }

    private mutating func begin(_ id: ConnectionID, as phase: Connection.Phase, jitter: UInt64, at now: MonotonicTime) {
        openingCount -= 1
        connections[id.index].phase = phase
        connections[id.index].endsAt = ConnectionAge.end(rules.maximumAge, jitter: jitter, from: now)
    }

    /// The connection has ended, or could not be opened.
    mutating func ended(_ id: ConnectionID, _ situation: PoolSituation) -> PoolStep {
        guard isKnown(id) else { return .nothing }
        defer { checkInvariants() }
        removeIdle(id)
        let wasOpening = connections[id.index].phase == .opening
        if wasOpening { openingCount -= 1 }
        if connections[id.index].phase == .shared { removeFromShared(id.slot) }
        if let streams = connections[id.index].streams { leases.removeUnusable(streams: Int(streams.unusable)) }
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
    private mutating func newConnection(for waiter: Newcomer) -> ConnectionID {
        let slot = freeSlots.popLast() ?? Int32(truncatingIfNeeded: connections.count)
        if Int(slot) == connections.count { connections.append(Connection()) }
        assert(connections[Int(slot)].phase == .none, "A connection is opened in the slot of another one.")
        connections[Int(slot)].phase = .opening
        connections[Int(slot)].endsAt = .never
        openingCount += 1
        lease(slot, to: waiter.client, as: expectedLease(of: waiter))
        return id(of: slot)
    }

    private func isInPhase(_ phase: Connection.Phase, _ id: ConnectionID) -> Bool {
        id.index < connections.count && connections[id.index].number == id.number
            && connections[id.index].phase == phase
    }

    /// The connection is being opened or open. The ID of one that has ended names nothing, or another connection's slot.
    private func isKnown(_ id: ConnectionID) -> Bool {
        id.index < connections.count && connections[id.index].number == id.number
            && connections[id.index].phase != .none
    }

}

// MARK: HTTP/2

extension PoolState {
    // MARK: The life of a connection

    /// The connection is open and speaks HTTP/2. The request that it was opened for has its first stream.
    ///
    /// - Parameter streamLimit: What the upstream allows.
    mutating func openedShared(
        _ id: ConnectionID,
        streamLimit: Int,
        jitter: UInt64,
        _ situation: PoolSituation
    ) -> PoolStep {
        guard isInPhase(.opening, id) else { return .nothing }
        begin(id, as: .shared, jitter: jitter, at: situation.now)
        let client = connections[id.index].client
        endLease(id.index)
        leases.add(client, .stream)
        let limit = allowed(streamLimit)
        leases.learned(streamsOfConnection: Int(limit))
        connections[id.index].streams = Streams(count: 1, limit: limit)
        shared.append(id.slot)
        speaksHTTP1 = false
        wantsTurn = true
        return next(situation)
    }

    /// The connection is open and speaks HTTP/1, where it could have been HTTP/2: those that waited for it need others.
    mutating func openedAlone(_ id: ConnectionID, jitter: UInt64, _ situation: PoolSituation) -> PoolStep {
        opened(id, jitter: jitter, at: situation.now)
        wantsTurn = true
        return next(situation)
    }

    /// The upstream allows another number of streams.
    mutating func streamLimitChanged(_ id: ConnectionID, to limit: Int, _ situation: PoolSituation) -> PoolStep {
        guard isKnown(id), connections[id.index].streams != nil else { return .nothing }
        let limit = allowed(limit)
        leases.learned(streamsOfConnection: Int(limit))
        connections[id.index].streams?.limit = limit
        wantsTurn = true
        return next(situation)
    }

    /// The upstream takes no more streams on the connection (GOAWAY).
    ///
    /// - Returns: Whether the connection has no streams and is to be closed.
    mutating func retireConnection(_ id: ConnectionID) -> Bool {
        guard isKnown(id), let streams = connections[id.index].streams else { return false }
        if removeIdle(id) { return true }
        if connections[id.index].phase == .shared { retireShared(id.slot) }
        checkInvariants()
        return streams.count == 0
    }

    private func allowed(_ limit: Int) -> Int32 { Int32(clamping: min(limit, rules.maximumStreams)) }

    private mutating func removeFromShared(_ slot: Int32) {
        if let place = shared.firstIndex(of: slot) { shared.remove(at: place) }
    }

    private mutating func retireShared(_ slot: Int32) {
        removeFromShared(slot)
        connections[Int(slot)].phase = .retiring
        guard let streams = connections[Int(slot)].streams, streams.hasRoom else { return }
        addUnusable(Int(slot), streams.limit - streams.count)
    }

    private mutating func addUnusable(_ slot: Int, _ streams: Int32) {
        connections[slot].streams?.unusable += streams
        leases.addUnusable(streams: Int(streams))
    }

    // MARK: Streams

    /// A stream for a request that has just come. nil while requests wait that can be served, where no connection has room, and for
    /// a client that is over its share.
    @inline(__always)
    mutating func takeStream(for client: PoolClient, at now: MonotonicTime) -> ConnectionID? {
        guard rules.opensOneAtATime, isOpenToNewcomers, leases.allowsOneMore(client, .stream) else { return nil }
        return leaseStream(for: client, at: now) ?? leaseIdleStream(for: client, at: now)
    }

    /// A stream for a request that lost its connection. It goes before those that wait. nil for a client that is over its share.
    mutating func takeUrgentStream(for client: PoolClient, at now: MonotonicTime) -> ConnectionID? {
        guard rules.opensOneAtATime, leases.allowsOneMore(client, .stream) else { return nil }
        return leaseStream(for: client, at: now)
    }

    /// The connection that has been open for longest goes first, so that the others can rest.
    private mutating func leaseStream(for client: PoolClient, at now: MonotonicTime) -> ConnectionID? {
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
                leases.add(client, .stream)
                return id(of: Int32(slot))
            }
            index += 1
        }
        return nil
    }

    private mutating func leaseIdleStream(for client: PoolClient, at now: MonotonicTime) -> ConnectionID? {
        guard let slot = idle.last, let streams = connections[Int(slot)].streams, streams.hasRoom,
            now < connections[Int(slot)].restsUntil
        else { return nil }
        idle.removeLast()
        beginSharing(slot, with: client)
        return id(of: slot)
    }

    /// The connection has rested, and has a stream of the client now.
    ///
    /// - Returns: Whether it is an HTTP/2 connection.
    @discardableResult
    private mutating func beginSharing(_ slot: Int32, with client: PoolClient) -> Bool {
        guard connections[Int(slot)].streams != nil else { return false }
        connections[Int(slot)].streams?.count = 1
        leases.add(client, .stream)
        connections[Int(slot)].phase = .shared
        shared.append(slot)
        checkInvariants()
        return true
    }

    /// The request of a stream is over. Report it once for each, also when the connection has ended.
    ///
    /// - Parameter client: The one that the stream was leased to.
    mutating func streamEnded(_ id: ConnectionID, of client: PoolClient, _ situation: PoolSituation) -> PoolReturn {
        leases.remove(client, .stream)
        guard isKnown(id), let streams = connections[id.index].streams, streams.count > 0 else { return .close }
        connections[id.index].streams?.count -= 1
        if connections[id.index].phase == .retiring { addUnusable(id.index, 1) }
        defer { checkInvariants() }
        guard streams.count == 1 else { return .goOn(servesLater: needsTurn(situation)) }
        guard connections[id.index].phase == .shared else { return .close }
        removeFromShared(id.slot)
        connections[id.index].phase = .leased
        return putBack(id, situation)
    }

    // MARK: Opening

    /// A connection may be opened for one more request.
    private var mayOpen: Bool { !rules.opensOneAtATime || speaksHTTP1 || openingCount == 0 }

    /// The next one of those that waited for a connection which could not be opened.
    private mutating func nextFailing() -> WaiterTicket? {
        failingWaiters -= 1
        guard let (ticket, _) = waiters.popFirst() else {
            failingWaiters = 0
            return nil
        }
        return ticket
    }
}

// MARK: Waiting

extension PoolState {
    // MARK: Newcomers

    /// A request needs a connection.
    ///
    /// - Parameters:
    ///   - isUrgent: No connection that was open already: the last one died under this request, which has waited for that one. Any
    ///     other request comes behind those that wait, also when a connection has just become free: they are served on the turn
    ///     that is about to come.
    ///   - isPrivate: No connection that was open already, and it will not be put back: see
    ///     ``keepPrivate(_:keepAliveSeconds:_:)``.
    mutating func connect(
        client: String?,
        isUrgent: Bool,
        isPrivate: Bool = false,
        _ situation: PoolSituation
    ) -> PoolStep {
        defer { checkInvariants() }
        let (name, client) = (client, self.client(client))
        let newcomer = Newcomer(name: name, client: client, isUrgent: isUrgent, isPrivate: isPrivate)
        guard isOpenToNewcomers || isUrgent, place == .none, canServe(newcomer), mayOpen else { return admit(newcomer) }
        self.newcomer = newcomer
        return askForPlace()
    }

    private mutating func askForPlace() -> PoolStep {
        isInBudget = true
        return .askForPlace
    }

    mutating func placeAnswered(isGranted: Bool, _ situation: PoolSituation) -> PoolStep {
        defer { checkInvariants() }
        // The budget is asked once for one place.
        if isGranted { placeCount += 1 } else { place = .asked }
        guard let newcomer else {
            hasGrant = hasGrant || isGranted
            return next(situation)
        }
        self.newcomer = nil
        return isGranted ? .dial(newConnection(for: newcomer), for: nil) : admit(newcomer)
    }

    private mutating func admit(_ newcomer: Newcomer) -> PoolStep {
        // It may have the place of a connection that it cannot use.
        if newcomer.needsNew || !kept.isEmpty { wantsTurn = true }
        let areOthersBlocked = waiters.isEmpty || areWaitersBlocked
        let isBlocked = areOthersBlocked && !canServe(newcomer)
        switch waiters.append(newcomer, client: newcomer.name, isUrgent: newcomer.isUrgent) {
        case .queued(let ticket):
            areWaitersBlocked = isBlocked
            return .wait(ticket)
        case .displaced(let displaced, _, let ticket):
            areWaitersBlocked = isBlocked
            // The one that leaves may have been the only one that could be served.
            if leases.isShared { wantsTurn = true }
            return .displace(displaced, by: ticket)
        case .refused: return .refuseNewcomer(.full)
        }
    }

    /// Its client is within its share.
    private func canServe(_ waiter: Newcomer) -> Bool {
        leases.allowsOneMore(waiter.client, expectedLease(of: waiter))
    }

    private func expectedLease(of waiter: Newcomer) -> ClientLeases.Lease {
        rules.opensOneAtATime && !speaksHTTP1 && !waiter.isPrivate ? .stream : .connection
    }

    // MARK: Waiters that leave

    /// The request waits no longer; without effect when its turn has come.
    mutating func leave(_ ticket: WaiterTicket, _ situation: PoolSituation) -> PoolStep {
        guard waiters.remove(ticket) != nil else { return .nothing }
        wantsTurn = true
        return next(situation)
    }

    mutating func timedOut(_ ticket: WaiterTicket) -> PoolStep {
        guard waiters.remove(ticket) != nil else { return .nothing }
        wantsTurn = true
        checkInvariants()
        return .refuse(ticket, .timedOut)
    }

    // MARK: Turns

    /// The place that was asked for; it is this pool's.
    mutating func placeGranted(_ situation: PoolSituation) -> PoolStep {
        place = .none
        placeCount += 1
        hasGrant = true
        wantsTurn = true
        return next(situation)
    }

    /// The turn of ``PoolStep/serveLater``.
    mutating func serve(_ situation: PoolSituation) -> PoolStep {
        isTurnScheduled = false
        isInTurn = true
        return next(situation)
    }

    private mutating func needsTurn(_ situation: PoolSituation) -> Bool {
        // When no request waits, other pools may have the idle connections.
        let isSpare = !idle.isEmpty && isRetired || hasSpare && situation.othersWait
        guard !waiters.isEmpty || isSpare, !isTurnScheduled else { return false }
        isTurnScheduled = true
        return true
    }

    /// What is to be done next. Every step leaves the state whole, so that events can come between two steps.
    mutating func next(_ situation: PoolSituation) -> PoolStep {
        defer { checkInvariants() }
        if failingWaiters > 0, let ticket = nextFailing() { return .fail(ticket) }
        if hasGrant || isInTurn, !waiters.isEmpty {
            let step = serveFirst(situation)
            if step != .nothing { return step }
        }
        if hasGrant, areAllBlocked {
            hasGrant = false
            placeCount -= 1
            return .giveBackPlace
        }
        if isInTurn { endTurn() }
        if isRetired, isSparing {
            // The waiter that a connection was put back for has left meanwhile, or its client is over its share.
            if areAllBlocked, !idle.isEmpty { return .close(leaseOldest()) }
            isSparing = false
        }
        if isSparing {
            let step = spareIdle(situation)
            if step != .nothing { return step }
        }
        return settle(situation)
    }

    /// No waiter can be served.
    private var areAllBlocked: Bool { waiters.isEmpty || areWaitersBlocked }

    /// Serves the waiter whose turn it is.
    private mutating func serveFirst(_ situation: PoolSituation) -> PoolStep {
        let first = firstWaiter
        areWaitersBlocked = first == nil
        guard let (ticket, waiter) = first else { return isInTurn ? closeKeptOfWaiters(situation) : .nothing }
        if !waiter.isPrivate, !shared.isEmpty, let id = leaseStream(for: waiter.client, at: situation.now) {
            waiters.pop(ticket)
            return .lease(id, to: ticket)
        }
        if !waiter.needsNew, let slot = idle.last, connections[Int(slot)].streams?.hasRoom ?? true {
            let id = self.id(of: slot)
            // Always looked at: the request may not be one that can be sent again.
            let action = take(
                for: .uncounted,
                mayRepeat: false,
                isOpen: true,
                mayHaveInput: true,
                busySince: nil,
                at: situation.now
            )
            return action == .close ? .close(id) : .look(id)
        }
        if hasGrant {
            hasGrant = false
            waiters.pop(ticket)
            return .dial(newConnection(for: waiter), for: ticket)
        }
        if place == .none, mayOpen { return askForPlace() }
        isInTurn = false
        guard place == .asked, hasSpare else { return .nothing }
        // Only one that needs a new connection finds an idle one here. It takes the place, and holds up no waiter behind it.
        return mayClose(at: situation.now, for: .own) ? .askForOwnPlace : spareLater(situation)
    }

    private mutating func endTurn() {
        isInTurn = false
        isSparing = areAllBlocked
    }

    /// The first one whose client is within its share.
    private var firstWaiter: (ticket: WaiterTicket, element: Newcomer)? { waiters.first { canServe($0) } }

    mutating func looked(isUsable: Bool, at id: ConnectionID, _ situation: PoolSituation) -> PoolStep {
        defer { checkInvariants() }
        guard isUsable else { return next(situation) }
        // Shares change on other loops at any time, so another waiter may be the first one now. A used connection is not for
        // each of them.
        let first = waiters.first { !$0.needsNew && canServe($0) }
        guard let (ticket, waiter) = first else { return .close(id) }
        waiters.pop(ticket)
        if beginSharing(id.slot, with: waiter.client) { return .lease(id, to: ticket) }
        lease(id.slot, to: waiter.client)
        return .lease(id, to: ticket)
    }

    mutating func ownPlaceAnswered(isGranted: Bool, _ situation: PoolSituation) -> PoolStep {
        guard isGranted, hasSpare else { return next(situation) }
        defer { checkInvariants() }
        place = .onItsWay
        return .close(leaseOldest())
    }

    /// What belongs to the end of every event.
    private mutating func settle(_ situation: PoolSituation) -> PoolStep {
        // Otherwise other pools would close connections for a place that no waiter may have.
        if areAllBlocked, place == .asked { return .withdrawRequest }
        if !waiters.isEmpty, areWaitersBlocked, !isSpareScheduled {
            isSpareScheduled = true
            let isSparing = situation.othersWait && !idle.isEmpty
            return .spareLater(isSparing ? rules.spareAfter : rules.shareCheckPeriod)
        }
        if waiters.isEmpty, place == .none, placeCount == 0, isInBudget {
            isInBudget = false
            return .leaveBudget
        }
        guard wantsTurn else {
            assert(waiters.isEmpty || isTurnComing, "A request waits, and nothing leads to its turn.")
            return .nothing
        }
        wantsTurn = false
        return needsTurn(situation) ? .serveLater : .nothing
    }

    /// - Parameter inTime: No place was on its way yet.
    mutating func requestWithdrawn(inTime: Bool, _ situation: PoolSituation) -> PoolStep {
        place = inTime ? .none : .onItsWay
        return next(situation)
    }

    // MARK: Sparing connections for other loops

    /// A pool of another loop waits for a place.
    mutating func othersBeganToWait(_ situation: PoolSituation) -> PoolStep {
        isSparing = areAllBlocked
        return next(situation)
    }

    /// The time of ``PoolStep/spareLater(_:)`` has passed.
    mutating func spareTimePassed(_ situation: PoolSituation) -> PoolStep {
        isSpareScheduled = false
        isInTurn = true
        return next(situation)
    }

    /// The connections that have rested longest go first.
    private mutating func spareIdle(_ situation: PoolSituation) -> PoolStep {
        guard areAllBlocked, situation.othersWait, hasSpare else {
            isSparing = false
            return .nothing
        }
        return mayClose(at: situation.now, for: .others) ? .offerIdle : spareLater(situation)
    }

    mutating func offerAnswered(isTaken: Bool, _ situation: PoolSituation) -> PoolStep {
        defer { checkInvariants() }
        guard isTaken, hasSpare else {
            let step = spareLater(situation)
            return step == .nothing ? next(situation) : step
        }
        return .close(leaseOldest())
    }

    private mutating func spareLater(_ situation: PoolSituation) -> PoolStep {
        isSparing = false
        guard hasSpare, situation.othersWait || !waiters.isEmpty, !isSpareScheduled else { return .nothing }
        isSpareScheduled = true
        return .spareLater(idle.isEmpty ? rules.sparePrivateAfter / 20 : rules.spareAfter)
    }

    // MARK: Connections without a request

    /// A client that is over its share with connections that it does not use waits for nothing else: the one of them that has rested
    /// longest is closed.
    private mutating func closeKeptOfWaiters(_ situation: PoolSituation) -> PoolStep {
        let place = kept.firstIndex { slot in
            let connection = connections[Int(slot)]
            return situation.now - connection.restsSince > rules.sparePrivateAfter
                && waiters.held(by: leases.name(of: connection.client)) > 0
        }
        guard let place else { return .nothing }
        // Its end leads to the next turn.
        isInTurn = false
        return .close(leaseKept(at: place))
    }

    private enum Need {
        case own
        case others
    }

    private var hasSpare: Bool { !idle.isEmpty || !kept.isEmpty }

    /// Whether ``leaseOldest()`` may be closed for another request.
    private func mayClose(at now: MonotonicTime, for need: Need) -> Bool {
        guard let slot = idle.first ?? kept.first else { return false }
        let rest = now - connections[Int(slot)].restsSince
        if idle.isEmpty { return rest > rules.sparePrivateAfter }
        return need == .own || rest > rules.spareAfter
    }
}

// MARK: Closing

extension PoolState {
    /// A reload has no use for the pool: no connection is kept beyond the requests that are under way. Close what
    /// ``nextToClose()`` names.
    mutating func retire() { isRetired = true }

    /// An idle or kept connection, for a shell that closes all of them.
    mutating func nextToClose() -> ConnectionID? {
        defer { checkInvariants() }
        return hasSpare ? leaseOldest() : nil
    }

    /// The connection that has rested longest; a private one where all are.
    private mutating func leaseOldest() -> ConnectionID {
        guard !idle.isEmpty else { return leaseKept(at: 0) }
        return leased(idle.removeFirst())
    }

    private mutating func leaseKept(at place: Int) -> ConnectionID { leased(kept.remove(at: place)) }

    private mutating func leased(_ slot: Int32) -> ConnectionID {
        connections[Int(slot)].phase = .leased
        return id(of: slot)
    }
}

// MARK: Invariants

extension PoolState {
    /// What holds after each event, also between two steps.
    private func checkInvariants() {
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
    private var isTurnComing: Bool {
        isTurnScheduled || isSpareScheduled || place != .none || openingCount > 0
    }
}

extension MonotonicTime {
    /// Later than every time.
    fileprivate static let never = MonotonicTime(nanoseconds: .max)
}

/// When a connection takes no more requests (`limits.connection_max_age`).
enum ConnectionAge {
    /// - Parameter jitter: A random number. It takes up to a tenth off the life of the connection, so that those which were
    ///   opened together do not end together.
    static func end(_ maximum: Duration, jitter: UInt64, from now: MonotonicTime) -> MonotonicTime {
        now + maximum - maximum / 10 * Int(jitter & 1023) / 1024
    }
}

// MARK: - Events and steps

/// Names a connection of a pool from the first attempt to open it until its end.
struct ConnectionID: Hashable, Sendable {
    let slot: Int32
    /// Slots are used again.
    let number: UInt32

    /// Where the shell keeps the connection in an array: numbers of connections that have ended are used again.
    var index: Int { Int(slot) }
}

/// What the pool reads from outside at an event.
struct PoolSituation: Hashable, Sendable {
    var now: MonotonicTime
    /// A pool of another event loop waits for a place.
    var othersWait: Bool
}

/// What becomes of an idle connection that would be taken for a request.
enum IdleConnectionAction: Hashable, Sendable {
    case lease
    /// Lease it, unless its end or bytes that were not asked for have come. Otherwise close it.
    case look
    /// It has rested for as long as it may, or is too old.
    case close
    /// It has ended already. ``PoolState/ended(_:_:)`` follows as usual.
    case gone
}

/// What becomes of a connection whose request is over.
enum PoolReturn: Hashable, Sendable {
    /// It waits in the pool. When it still does at this time, close it and report
    /// ``PoolState/removeIdle(_:)``.
    case rest(until: MonotonicTime, servesLater: Bool)
    /// Ask the budget whether the connection is to be closed for another loop that waits. If so close it, else put it back
    /// again with `wasOffered`.
    case offer
    case close
    /// Other requests use it.
    case goOn(servesLater: Bool)
}

/// What the shell of a pool does next. After each step but ``nothing``, report its answer or call ``PoolState/next(_:)``.
enum PoolStep: Hashable, Sendable {
    case nothing

    // MARK: Newcomers

    /// Open a connection for the waiter; nil is the request that has just come. There is a place for it.
    case dial(ConnectionID, for: WaiterTicket?)
    /// The request that has just come waits, under a deadline.
    case wait(WaiterTicket)
    /// The request that has just come waits. The other one is refused for it.
    case displace(WaiterTicket, by: WaiterTicket)
    case refuseNewcomer(PoolRefusal)

    // MARK: Waiters

    case refuse(WaiterTicket, PoolRefusal)
    /// The connection that the waiter waited for could not be opened: it fails for the same reason.
    case fail(WaiterTicket)
    /// Look whether the connection has ended, or has brought bytes that were not asked for, and close it if so. Answer:
    /// ``PoolState/looked(isUsable:_:)``.
    case look(ConnectionID)
    case lease(ConnectionID, to: WaiterTicket)
    /// Report ``PoolState/serve(_:)`` on a turn of its own: the caller is still busy with the connection it has put back.
    case serveLater

    // MARK: Connections

    case close(ConnectionID)
    /// Report ``PoolState/spareTimePassed(_:)`` after this time.
    case spareLater(Duration)

    // MARK: The budget that all loops share

    /// Join the budget if need be, and ask it for a place. Answer: ``PoolState/placeAnswered(isGranted:_:)``.
    case askForPlace
    /// Ask the budget to pass the place of a connection that this pool closes to this pool. Answer:
    /// ``PoolState/ownPlaceAnswered(isGranted:_:)``.
    case askForOwnPlace
    /// The place that was asked for is not needed. Answer: ``PoolState/requestWithdrawn(inTime:_:)``.
    case withdrawRequest
    case giveBackPlace
    /// Ask the budget whether a loop that waits can have the place of an idle connection. Answer:
    /// ``PoolState/offerAnswered(isTaken:_:)``.
    case offerIdle
    /// The pool has no connections and no waiters.
    case leaveBudget
}

/// Why a request gets no connection.
enum PoolRefusal: Hashable, Sendable {
    /// There are as many connections and waiters as there may be.
    case full
    /// Likewise, and the client holds more places than others.
    case displaced
    /// No connection became free in time.
    case timedOut

    var kind: ProblemKind { .upstreamBusy }
}
