import GatewayHTTP

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
