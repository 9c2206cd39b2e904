import GatewayHTTP

/// Decides about the connections of one event loop to one upstream: which one a request gets, which requests wait, when one is
/// opened or closed. It performs nothing, and knows no socket and no clock: ``UpstreamPool`` reports events and carries out what is
/// returned.
///
///     HTTP/1:    opening ──▶ leased ◀──▶ idle
///     private:   opening ──▶ leased ◀──▶ kept
///     HTTP/2:    opening ──▶ shared ◀──▶ idle
///                               └──▶ retiring           after GOAWAY or at its age limit
///     to close:  idle, kept ──▶ leased ──▶ ended        when it has rested too long, or its place is needed
///
/// Every phase ends with ``ended(_:_:)``, which gives the place of the connection back to the budget of all loops. A connection
/// that the pool is about to close is in phase `leased` until then, so that no request gets it.
///
/// - An HTTP/1 connection carries one request at a time, so it is leased as a whole. A lease begins with ``opened(_:jitter:at:)``,
///   ``take(for:mayRepeat:isOpen:mayHaveInput:busySince:at:)`` or ``PoolStep/lease(_:to:)``, and ends with
///   ``putBack(_:keepAliveSeconds:wasOffered:_:)`` or ``ended(_:_:)``.
/// - A private connection is kept for its client between requests: see ``keepPrivate(_:keepAliveSeconds:_:)`` and
///   ``takePrivate(_:)``.
/// - An HTTP/2 connection is leased by streams: see ``openedShared(_:streamLimit:jitter:_:)``. Each stream counts for its client
///   until ``streamEnded(_:of:_:)``, which is called even if the connection has already ended.
///
/// A request that finds no connection asks the budget for a place, and opens a connection in it. Without a place, it waits in a
/// queue in which clients take turns, until a connection is put back, a place is granted or its deadline passes. A client that uses
/// more connections or streams than its share waits even if there are idle connections or places, which are for other clients
/// (``FairShare``). It keeps its turn in the queue. All loops count in one account, ``ClientLeases``.
///
/// Taking and putting back are on the path of every request. They allocate nothing and look nothing up, except that ``client(_:)``
/// looks up the name if clients have names.
struct PoolState: ~Copyable, Sendable {
    struct Rules: Hashable, Sendable {
        var maximumWaiters: Int
        /// The longest time between two requests on a connection.
        var idleTimeout: Duration
        /// How often the pool checks whether a client is still over its share: this may change on other loops.
        var shareCheckPeriod: Duration = .milliseconds(100)
        /// The longest life of a connection, and so the longest time for which an old address is used after a change in DNS.
        var maximumAge: Duration = .seconds(600)
        /// A connection that was read empty less than this ago is used without a look, which costs a system call (docs/internals/adr/0025,
        /// 0057). So is one that was read empty in the last two turns of a busy loop.
        var freshness: Duration = .milliseconds(5)
        /// A connection that has been idle for less is not given to others: its last client may send another request.
        var spareAfter: Duration = .milliseconds(10)
        /// The same for a private connection, whose client may be about to answer a challenge.
        var sparePrivateAfter: Duration = .seconds(2)

        /// Connections may turn out to be HTTP/2. Only one is opened at a time, since it may carry all requests that wait.
        var opensOneAtATime = false
        /// The most requests at a time on an HTTP/2 connection, even if the upstream allows more.
        var maximumStreams = Self.streamsPerConnection

        static let streamsPerConnection = 100
    }

    fileprivate struct Connection: Sendable {
        enum Phase: Sendable {
            case none
            case opening
            /// In use, or about to be closed.
            case leased
            /// HTTP/2 with at least one stream; takes more.
            case shared
            /// HTTP/2 with at least one stream; takes no more.
            case retiring
            case idle
            /// Private and without a request.
            case kept
        }

        var number: UInt32 = 0
        var phase = Phase.none
        /// The client that uses it or for which it is kept. A connection that is opened for a stream counts as that stream.
        var client = PoolClient.uncounted
        var lease = ClientLeases.Lease.connection
        var restsSince = MonotonicTime.never
        /// After this time it is not used any more.
        var restsUntil = MonotonicTime.never
        var endsAt = MonotonicTime.never
        /// The streams of an HTTP/2 connection, and their limit. nil for an HTTP/1 connection.
        var streams: Streams?

        /// One method, so that the array is accessed once.
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
        /// The upstream's limit or that of the rules, whichever is lower. It may fall below ``count``.
        var limit: Int32
        /// Free streams of a retiring connection, which no request gets.
        var unusable: Int32 = 0

        var hasRoom: Bool { count < limit }
    }

    /// A request that needs a connection and has found none.
    fileprivate struct Newcomer: Sendable {
        let name: String?
        let client: PoolClient
        let isUrgent: Bool
        let isPrivate: Bool

        /// Must not get a connection that is already open.
        var needsNew: Bool { isUrgent || isPrivate }
    }

    private let rules: Rules
    /// ``Rules/freshness`` in nanoseconds, because converting a `Duration` costs a long division.
    private let freshness: Int64
    private let idleTime: Int64
    private var connections: [Connection] = []
    private var freeSlots: [Int32] = []
    /// The most recently used last, because that one is the least likely to have been closed in the meantime.
    private var idle: [Int32] = []
    /// Private connections without a request. The one that has rested longest comes first.
    private(set) var kept: [Int32] = []
    private var waiters: FairQueue<Newcomer>
    private let leases: ClientLeases
    /// When last checked, the client of every waiter was over its share. Whatever changes that on this loop causes a turn.
    private var areWaitersBlocked = false
    /// Connections that are open or being opened, plus a place that is not used yet.
    private(set) var placeCount = 0
    private var place = Place.none
    /// The pool has been granted a place that no request has used yet.
    private var hasGrant = false
    /// The pool has joined the budget.
    private var isInBudget = false
    /// The request that waits for the answer of the budget.
    private var newcomer: Newcomer?
    /// ``PoolStep/serveLater`` was returned, and ``serve(_:)`` is to come.
    private var isTurnScheduled = false
    /// Waiters are being served, one step after the other.
    private var isInTurn = false
    /// A waiter may be served because of this event, which therefore ends with ``PoolStep/serveLater``.
    private var wantsTurn = false
    /// Idle connections are being given to other loops, one step after the other.
    private var isSparing = false
    /// ``PoolStep/spareLater(_:)`` was returned, and ``spareTimePassed(_:)`` is to come.
    private var isSpareScheduled = false
    private var isRetired = false
    /// HTTP/2 connections in the phase `shared`, the oldest first.
    private var shared: [Int32] = []
    private var openingCount = 0
    /// The last connection spoke HTTP/1, so one that is being opened will probably carry one request at a time.
    private var speaksHTTP1 = false
    /// How many waiters fail because the connection that they waited for could not be opened.
    private var failingWaiters = 0

    init(_ rules: Rules, _ leases: ClientLeases) {
        self.rules = rules
        self.leases = leases
        freshness = rules.freshness.wholeNanoseconds
        // Limited, so that no sum with it overflows.
        idleTime = min(rules.idleTimeout.wholeNanoseconds, 1 << 61)
        waiters = FairQueue(limit: rules.maximumWaiters)
        idle.reserveCapacity(64)
    }

    var idleCount: Int { idle.count }
    var waiterCount: Int { waiters.count }

    // MARK: Taking

    /// The client's entry in the account.
    func client(_ name: String?) -> PoolClient { leases.client(name) }

    /// The connection that ``take(for:mayRepeat:isOpen:mayHaveInput:busySince:at:)`` would take. nil while requests wait that can
    /// be served, which go first, and for a client that is over its share.
    @inline(__always)
    func next(for client: PoolClient) -> ConnectionID? {
        guard isOpenToNewcomers, leases.allowsOneMore(client) else { return nil }
        return latest
    }

    /// Whether a new request may be served, because no waiter can be served before it.
    @inline(__always)
    private var isOpenToNewcomers: Bool { waiters.isEmpty || areWaitersBlocked && !isTurnScheduled }

    /// The idle connection that was used most recently.
    var latest: ConnectionID? {
        guard let slot = idle.last else { return nil }
        return id(of: slot)
    }

    @inline(__always)
    private func id(of slot: Int32) -> ConnectionID { ConnectionID(slot: slot, number: connections[Int(slot)].number) }

    /// Takes the connection ``next(for:)``. It was open a moment ago, but may turn out to be closed on first use.
    ///
    /// - Parameters:
    ///   - mayRepeat: Whether the request may be sent again if the connection turns out to be closed. If not, it only gets a
    ///     connection that has been looked at.
    ///   - isOpen: The connection has not ended.
    ///   - mayHaveInput: There may be unread bytes after those that were read last.
    ///   - busySince: When the loop's previous turn began; nil if the loop has rested since.
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

    /// The connection's request is over, and it can carry another one.
    ///
    /// - Parameters:
    ///   - keepAliveSeconds: How long the upstream says that it keeps the connection open.
    ///   - wasOffered: The budget was already asked whether another loop needs the connection.
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
        // Requests under the old configuration may be waiting for a connection.
        guard !isRetired || !waiters.isEmpty else { return .close }
        let until = endOfRest(slot, keepAliveSeconds, from: now)
        endLease(slot)
        connections[slot].rest(.idle, from: now, until: until)
        idle.append(id.slot)
        return .rest(until: until, servesLater: needsTurn(situation))
    }

    /// A private connection's request is over. The connection stays with its client until others need its place.
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
    /// - Returns: Whether the connection was kept.
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

    /// Shorter than the time that the upstream announced, so that the gateway closes the connection first.
    @inline(__always)
    private func longestRest(_ keepAliveSeconds: Int?) -> Int64 {
        guard let keepAliveSeconds else { return idleTime }
        let kept = Int64(min(max(keepAliveSeconds, 0), 1 << 30)) * 1_000_000_000
        return min(idleTime, kept - min(1_000_000_000, kept / 2))
    }
}

// MARK: Connections, from their opening to their end

/// The life of a connection.
extension PoolState {
    /// Takes an idle or kept connection that the shell is about to close: the time of ``PoolReturn/rest(until:servesLater:)`` has
    /// passed, or the upstream has sent bytes without a request.
    ///
    /// - Returns: Whether it was idle or kept.
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
    /// - Parameter jitter: A random number, see ``ConnectionAge``.
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
        // Some clients may no longer be over their share.
        if leases.isShared { wantsTurn = true }
        if rules.opensOneAtATime {
            wantsTurn = true
            if wasOpening, !speaksHTTP1 { failingWaiters = waiterCount }
        }
        return .giveBackPlace
    }

    /// Opens a connection in a place that was granted.
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

    /// Whether the connection is open or being opened. The ID of one that has ended is unknown, even if its slot is in use again.
    private func isKnown(_ id: ConnectionID) -> Bool {
        id.index < connections.count && connections[id.index].number == id.number
            && connections[id.index].phase != .none
    }

}

// MARK: HTTP/2

/// Connections that requests share, and their streams.
extension PoolState {
    // MARK: Connections

    /// The connection is open and speaks HTTP/2. The request that it was opened for gets its first stream.
    ///
    /// - Parameter streamLimit: The most streams that the upstream allows.
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

    /// The connection is open and speaks HTTP/1 although HTTP/2 was possible. The other requests that waited for it need more
    /// connections.
    mutating func openedAlone(_ id: ConnectionID, jitter: UInt64, _ situation: PoolSituation) -> PoolStep {
        opened(id, jitter: jitter, at: situation.now)
        wantsTurn = true
        return next(situation)
    }

    /// The upstream has changed its limit of streams.
    mutating func streamLimitChanged(_ id: ConnectionID, to limit: Int, _ situation: PoolSituation) -> PoolStep {
        guard isKnown(id), connections[id.index].streams != nil else { return .nothing }
        let limit = allowed(limit)
        leases.learned(streamsOfConnection: Int(limit))
        connections[id.index].streams?.limit = limit
        wantsTurn = true
        return next(situation)
    }

    /// The upstream accepts no more streams on the connection (GOAWAY).
    ///
    /// - Returns: Whether the connection has no streams, so that it is to be closed.
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

    /// Takes a stream for a new request. nil while requests wait that can be served, if no connection has room, and for a client
    /// that is over its share.
    @inline(__always)
    mutating func takeStream(for client: PoolClient, at now: MonotonicTime) -> ConnectionID? {
        guard rules.opensOneAtATime, isOpenToNewcomers, leases.allowsOneMore(client, .stream) else { return nil }
        return leaseStream(for: client, at: now) ?? leaseIdleStream(for: client, at: now)
    }

    /// Takes a stream for a request that has lost its connection, before those that wait. nil for a client that is over its share.
    mutating func takeUrgentStream(for client: PoolClient, at now: MonotonicTime) -> ConnectionID? {
        guard rules.opensOneAtATime, leases.allowsOneMore(client, .stream) else { return nil }
        return leaseStream(for: client, at: now)
    }

    /// Uses the oldest connection first, so that the others become idle.
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

    /// Leases the first stream of a connection that was idle.
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

    /// A stream's request is over. Call this once for each stream, even if the connection has ended.
    ///
    /// - Parameter client: The client that the stream was leased to.
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

    /// Whether a connection may be opened for one more request.
    private var mayOpen: Bool { !rules.opensOneAtATime || speaksHTTP1 || openingCount == 0 }

    /// The next waiter that fails because the connection that it waited for could not be opened.
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

/// Requests that wait for a connection, and their turns.
extension PoolState {
    // MARK: Newcomers

    /// A request needs a connection.
    ///
    /// - Parameters:
    ///   - isUrgent: The request has lost its connection. It needs a new one and goes first, since it has waited before. Any other
    ///     request comes after those that wait, even if a connection has just become free: they are served in the next turn.
    ///   - isPrivate: The request needs a new connection, which is not put back into the pool: see
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
        // The budget is asked for one place at a time.
        if isGranted { placeCount += 1 } else { place = .asked }
        guard let newcomer else {
            hasGrant = hasGrant || isGranted
            return next(situation)
        }
        self.newcomer = nil
        return isGranted ? .dial(newConnection(for: newcomer), for: nil) : admit(newcomer)
    }

    private mutating func admit(_ newcomer: Newcomer) -> PoolStep {
        // It cannot use an idle connection, but may get the place of one.
        if newcomer.needsNew || !kept.isEmpty { wantsTurn = true }
        let areOthersBlocked = waiters.isEmpty || areWaitersBlocked
        let isBlocked = areOthersBlocked && !canServe(newcomer)
        switch waiters.append(newcomer, client: newcomer.name, isUrgent: newcomer.isUrgent) {
        case .queued(let ticket):
            areWaitersBlocked = isBlocked
            return .wait(ticket)
        case .displaced(let displaced, _, let ticket):
            areWaitersBlocked = isBlocked
            // The displaced one may have been the only waiter that could be served.
            if leases.isShared { wantsTurn = true }
            return .displace(displaced, by: ticket)
        case .refused: return .refuseNewcomer(.full)
        }
    }

    /// Whether the waiter's client is within its share.
    private func canServe(_ waiter: Newcomer) -> Bool {
        leases.allowsOneMore(waiter.client, expectedLease(of: waiter))
    }

    private func expectedLease(of waiter: Newcomer) -> ClientLeases.Lease {
        rules.opensOneAtATime && !speaksHTTP1 && !waiter.isPrivate ? .stream : .connection
    }

    // MARK: Waiters that leave

    /// The request stops waiting. No effect if it is no longer in the queue.
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

    /// The pool gets the place that it asked for.
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
        // If no request waits, other pools may have the idle connections.
        let isSpare = !idle.isEmpty && isRetired || hasSpare && situation.othersWait
        guard !waiters.isEmpty || isSpare, !isTurnScheduled else { return false }
        isTurnScheduled = true
        return true
    }

    /// The next step. Each step leaves the state consistent, so other events may be reported between two steps.
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
            // The waiter for which the connection was put back has left in the meantime, or its client is over its share.
            if areAllBlocked, !idle.isEmpty { return .close(takeOldest()) }
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
            // Always looked at, because the request may not be repeatable.
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
        // Only a waiter that needs a new connection gets here while one is idle. It takes that one's place, so that it does not
        // hold up the waiters behind it.
        return mayClose(at: situation.now, for: .own) ? .askForOwnPlace : spareLater(situation)
    }

    private mutating func endTurn() {
        isInTurn = false
        isSparing = areAllBlocked
    }

    /// The first waiter whose client is within its share.
    private var firstWaiter: (ticket: WaiterTicket, element: Newcomer)? { waiters.first { canServe($0) } }

    mutating func looked(isUsable: Bool, at id: ConnectionID, _ situation: PoolSituation) -> PoolStep {
        defer { checkInvariants() }
        guard isUsable else { return next(situation) }
        // Shares change on other loops at any time, so another waiter may be first now. Not every waiter can use an idle
        // connection.
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
        return .close(takeOldest())
    }

    /// The last step of every event.
    private mutating func settle(_ situation: PoolSituation) -> PoolStep {
        // Otherwise other pools would close connections for a place that no waiter may use.
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

    /// - Parameter inTime: Whether no place had been promised yet.
    mutating func requestWithdrawn(inTime: Bool, _ situation: PoolSituation) -> PoolStep {
        place = inTime ? .none : .onItsWay
        return next(situation)
    }

    // MARK: Giving connections to other loops

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

    /// Gives away idle connections, those that have rested longest first.
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
        return .close(takeOldest())
    }

    private mutating func spareLater(_ situation: PoolSituation) -> PoolStep {
        isSparing = false
        guard hasSpare, situation.othersWait || !waiters.isEmpty, !isSpareScheduled else { return .nothing }
        isSpareScheduled = true
        return .spareLater(idle.isEmpty ? rules.sparePrivateAfter / 20 : rules.spareAfter)
    }

    // MARK: Connections without a request

    /// Closes a private connection, the one that has rested longest, of a client that waits because its unused connections count
    /// towards its share.
    private mutating func closeKeptOfWaiters(_ situation: PoolSituation) -> PoolStep {
        let place = kept.firstIndex { slot in
            let connection = connections[Int(slot)]
            return situation.now - connection.restsSince > rules.sparePrivateAfter
                && waiters.held(by: leases.name(of: connection.client)) > 0
        }
        guard let place else { return .nothing }
        // The end of the connection causes the next turn.
        isInTurn = false
        return .close(takeKept(at: place))
    }

    private enum Need {
        case own
        case others
    }

    private var hasSpare: Bool { !idle.isEmpty || !kept.isEmpty }

    /// Whether the oldest connection may be closed for another request.
    private func mayClose(at now: MonotonicTime, for need: Need) -> Bool {
        guard let slot = idle.first ?? kept.first else { return false }
        let rest = now - connections[Int(slot)].restsSince
        if idle.isEmpty { return rest > rules.sparePrivateAfter }
        return need == .own || rest > rules.spareAfter
    }
}

// MARK: Closing

/// Which connections are closed next.
extension PoolState {
    /// The configuration no longer uses the pool: connections are closed once their current requests are over. Then close what
    /// ``nextToClose()`` returns.
    mutating func retire() { isRetired = true }

    /// Takes an idle or kept connection, for a shell that closes all of them.
    mutating func nextToClose() -> ConnectionID? {
        defer { checkInvariants() }
        return hasSpare ? takeOldest() : nil
    }

    /// Takes the connection that has rested longest, to be closed. A private one only if there is no other.
    private mutating func takeOldest() -> ConnectionID {
        guard !idle.isEmpty else { return takeKept(at: 0) }
        return taken(idle.removeFirst())
    }

    private mutating func takeKept(at place: Int) -> ConnectionID { taken(kept.remove(at: place)) }

    private mutating func taken(_ slot: Int32) -> ConnectionID {
        connections[Int(slot)].phase = .leased
        return id(of: slot)
    }
}

// MARK: Invariants

/// What is always true between two calls.
extension PoolState {
    /// What holds after each event, also between two steps.
    private func checkInvariants() {
        assert(placeCount == inUse + (hasGrant ? 1 : 0), "The pool counts more or fewer places than it uses.")
        assert(isInBudget || placeCount == 0 && place == .none, "The pool has a place but has not joined the budget.")
        assert(openingCount >= 0 && failingWaiters >= 0, "A count is below zero.")
        assert(idle.count + kept.count + shared.count + openingCount <= inUse, "A connection is in two lists.")
        assert(are(idle, in: .idle) && are(kept, in: .kept), "A connection that rests is in use.")
        assert(are(shared, in: .shared), "A connection in the list `shared` takes no streams.")
        assert(freeSlots.last.map { are([$0], in: .none) } ?? true, "A connection has a slot that is free.")
        assert(idle.last.map { connections[Int($0)].client == .uncounted } ?? true, "A client uses an idle connection.")
        assert(
            shared.last.map { (connections[Int($0)].streams?.count ?? 0) > 0 } ?? true,
            "A connection without streams is not idle."
        )
        assert(connections.count > 8 || hasEachInItsList, "A connection is missing from its list, or in it twice.")
    }

    private var inUse: Int { connections.count - freeSlots.count }

    /// Checks a few at each end, since there may be thousands.
    private func are(_ slots: [Int32], in phase: Connection.Phase) -> Bool {
        slots.prefix(4).allSatisfy { connections[Int($0)].phase == phase }
            && slots.suffix(4).allSatisfy { connections[Int($0)].phase == phase }
    }

    private var hasEachInItsList: Bool {
        count(.none) == freeSlots.count && count(.opening) == openingCount && count(.idle) == idle.count
            && count(.kept) == kept.count && count(.shared) == shared.count
    }

    private func count(_ phase: Connection.Phase) -> Int { connections.count { $0.phase == phase } }

    /// Whether an event is about to come that serves the waiters.
    private var isTurnComing: Bool {
        isTurnScheduled || isSpareScheduled || place != .none || openingCount > 0
    }
}

extension MonotonicTime {
    /// Later than any other time.
    fileprivate static let never = MonotonicTime(nanoseconds: .max)
}

/// When a connection takes no more requests (`limits.connection_max_age`).
enum ConnectionAge {
    /// - Parameter jitter: A random number. It shortens the life of a connection by up to a tenth, so that connections which were
    ///   opened together do not end together.
    static func end(_ maximum: Duration, jitter: UInt64, from now: MonotonicTime) -> MonotonicTime {
        now + maximum - maximum / 10 * Int(jitter & 1023) / 1024
    }
}

// MARK: - Events and steps

/// Names a connection of a pool from the first attempt to open it until its end.
struct ConnectionID: Hashable, Sendable {
    let slot: Int32
    /// Tells the connections apart that use a slot one after the other.
    let number: UInt32

    /// The connection's place in an array of the shell. It is used again after the connection has ended.
    var index: Int { Int(slot) }
}

/// What the pool needs to know about the outside at an event.
struct PoolSituation: Hashable, Sendable {
    var now: MonotonicTime
    /// A pool of another event loop waits for a place.
    var othersWait: Bool
}

/// What to do with an idle connection that a request is about to take.
enum IdleConnectionAction: Hashable, Sendable {
    case lease
    /// Lease it, unless its end or bytes without a request have arrived. Then close it.
    case look
    /// It has rested too long or is too old.
    case close
    /// It has already ended. ``PoolState/ended(_:_:)`` follows as usual.
    case gone
}

/// What to do with a connection whose request is over.
enum PoolReturn: Hashable, Sendable {
    /// It waits in the pool. If it still does at this time, report ``PoolState/removeIdle(_:)`` and close it.
    case rest(until: MonotonicTime, servesLater: Bool)
    /// Ask the budget whether the connection is to be closed for another loop that waits. If so, close it; if not, put it back
    /// again with `wasOffered`.
    case offer
    case close
    /// Other requests use it.
    case goOn(servesLater: Bool)
}

/// What the shell of a pool does next. After each step except ``nothing``, report its answer or call ``PoolState/next(_:)``.
enum PoolStep: Hashable, Sendable {
    case nothing

    // MARK: Newcomers

    /// Open a connection for the waiter, or for the new request if nil. There is a place for it.
    case dial(ConnectionID, for: WaiterTicket?)
    /// The new request waits, with a deadline.
    case wait(WaiterTicket)
    /// The new request waits. The other one is refused to make room for it.
    case displace(WaiterTicket, by: WaiterTicket)
    case refuseNewcomer(PoolRefusal)

    // MARK: Waiters

    case refuse(WaiterTicket, PoolRefusal)
    /// The waiter fails for the same reason as the connection that it waited for.
    case fail(WaiterTicket)
    /// Look whether the connection has ended or bytes without a request have arrived. If so, close it. Answer:
    /// ``PoolState/looked(isUsable:at:_:)``.
    case look(ConnectionID)
    case lease(ConnectionID, to: WaiterTicket)
    /// Report ``PoolState/serve(_:)`` in a later turn of the loop: the caller is still busy with the connection that it has put
    /// back.
    case serveLater

    // MARK: Connections

    case close(ConnectionID)
    /// Report ``PoolState/spareTimePassed(_:)`` after this time.
    case spareLater(Duration)

    // MARK: The budget that all loops share

    /// Join the budget if necessary, and ask it for a place. Answer: ``PoolState/placeAnswered(isGranted:_:)``.
    case askForPlace
    /// Ask the budget to let this pool keep the place of a connection that it closes. Answer:
    /// ``PoolState/ownPlaceAnswered(isGranted:_:)``.
    case askForOwnPlace
    /// The place that was asked for is no longer needed. Answer: ``PoolState/requestWithdrawn(inTime:_:)``.
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
    /// The limits of connections and waiters are reached.
    case full
    /// The limits are reached, and this client has more waiters than others.
    case displaced
    /// No connection became free in time.
    case timedOut

    var kind: ProblemKind { .upstreamBusy }
}
