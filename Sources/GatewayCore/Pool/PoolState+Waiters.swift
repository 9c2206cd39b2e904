extension PoolState {
    /// A request that needs a connection and has found none.
    struct Newcomer: Sendable {
        let name: String?
        let client: PoolClient
        let isUrgent: Bool
        let isPrivate: Bool

        /// No connection that was open already.
        var needsNew: Bool { isUrgent || isPrivate }
    }

    // MARK: Newcomers

    /// A request needs a connection.
    ///
    /// - Parameters:
    ///   - isUrgent: No connection that was open already: the last one died under this request, which has waited for that one. Any
    ///     other request comes behind those that wait, also when a connection has just become free: they are served on the turn
    ///     that is about to come.
    ///   - isPrivate: No connection that was open already, and it will not be put back: see
    ///     ``keepPrivate(_:keepAliveSeconds:_:)``.
    package mutating func connect(
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

    package mutating func placeAnswered(isGranted: Bool, _ situation: PoolSituation) -> PoolStep {
        defer { checkInvariants() }
        // The budget is asked once for one place.
        if isGranted { placeCount += 1 } else { place = .asked }
        guard let newcomer else {
            hasGrant = hasGrant || isGranted
            return next(situation)
        }
        self.newcomer = nil
        return isGranted ? .dial(newConnection(for: newcomer.client), for: nil) : admit(newcomer)
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
    private func canServe(_ waiter: Newcomer) -> Bool { leases.allowsOneMore(waiter.client) }

    // MARK: Waiters that leave

    /// The request waits no longer; without effect when its turn has come.
    package mutating func leave(_ ticket: WaiterTicket, _ situation: PoolSituation) -> PoolStep {
        guard waiters.remove(ticket) != nil else { return .nothing }
        wantsTurn = true
        return next(situation)
    }

    package mutating func timedOut(_ ticket: WaiterTicket) -> PoolStep {
        guard waiters.remove(ticket) != nil else { return .nothing }
        wantsTurn = true
        checkInvariants()
        return .refuse(ticket, .timedOut)
    }

    // MARK: Turns

    /// The place that was asked for; it is this pool's.
    package mutating func placeGranted(_ situation: PoolSituation) -> PoolStep {
        place = .none
        placeCount += 1
        hasGrant = true
        wantsTurn = true
        return next(situation)
    }

    /// The turn of ``PoolStep/serveLater``.
    package mutating func serve(_ situation: PoolSituation) -> PoolStep {
        isTurnScheduled = false
        isInTurn = true
        return next(situation)
    }

    mutating func needsTurn(_ situation: PoolSituation) -> Bool {
        // When no request waits, other pools may have the idle connections.
        let isSpare = !idle.isEmpty && isRetired || hasSpare && situation.othersWait
        guard !waiters.isEmpty || isSpare, !isTurnScheduled else { return false }
        isTurnScheduled = true
        return true
    }

    /// What is to be done next. Every step leaves the state whole, so that events can come between two steps.
    package mutating func next(_ situation: PoolSituation) -> PoolStep {
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
        if !waiter.isPrivate, !shared.isEmpty, let id = leaseStream(at: situation.now) {
            waiters.pop(ticket)
            return .lease(id, to: ticket)
        }
        if !waiter.needsNew, let slot = idle.last, connections[Int(slot)].streams?.hasRoom ?? true {
            let id = ConnectionID(slot: slot, number: connections[Int(slot)].number)
            // Always looked at: the request may not be one that can be sent again.
            let action = take(for: .uncounted, mayRepeat: false, isOpen: true, mayHaveInput: true, at: situation.now)
            return action == .close ? .close(id) : .look(id)
        }
        if hasGrant {
            hasGrant = false
            waiters.pop(ticket)
            return .dial(newConnection(for: waiter.client), for: ticket)
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

    package mutating func looked(isUsable: Bool, at id: ConnectionID, _ situation: PoolSituation) -> PoolStep {
        defer { checkInvariants() }
        guard isUsable else { return next(situation) }
        // Shares change on other loops at any time, so another waiter may be the first one now. A used connection is not for
        // each of them.
        let first = waiters.first { !$0.needsNew && canServe($0) }
        guard let (ticket, waiter) = first else { return .close(id) }
        waiters.pop(ticket)
        if beginSharing(id.slot) { return .lease(id, to: ticket) }
        lease(id.slot, to: waiter.client)
        return .lease(id, to: ticket)
    }

    package mutating func ownPlaceAnswered(isGranted: Bool, _ situation: PoolSituation) -> PoolStep {
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
    package mutating func requestWithdrawn(inTime: Bool, _ situation: PoolSituation) -> PoolStep {
        place = inTime ? .none : .onItsWay
        return next(situation)
    }

    // MARK: Sparing connections for other loops

    /// A pool of another loop waits for a place.
    package mutating func othersBeganToWait(_ situation: PoolSituation) -> PoolStep {
        isSparing = areAllBlocked
        return next(situation)
    }

    /// The time of ``PoolStep/spareLater(_:)`` has passed.
    package mutating func spareTimePassed(_ situation: PoolSituation) -> PoolStep {
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

    package mutating func offerAnswered(isTaken: Bool, _ situation: PoolSituation) -> PoolStep {
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

    var hasSpare: Bool { !idle.isEmpty || !kept.isEmpty }

    /// Whether ``leaseOldest()`` may be closed for another request.
    private func mayClose(at now: MonotonicTime, for need: Need) -> Bool {
        guard let slot = idle.first ?? kept.first else { return false }
        let rest = now - connections[Int(slot)].restsSince
        if idle.isEmpty { return rest > rules.sparePrivateAfter }
        return need == .own || rest > rules.spareAfter
    }
}
