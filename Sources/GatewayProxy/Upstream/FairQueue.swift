/// Identifies a waiter until it leaves the queue.
package struct WaiterTicket: Hashable, Sendable {
    let slot: Int32
    let number: UInt32
}

/// A bounded queue in which clients take turns, so that a client that asks often does not hold up the others.
///
///     a1 a2 a3 b1 c1 b2   leave as   a1 b1 c1 a2 b2 a3
///
/// - Waiters of one client leave in the order in which they came. Requests without a client's name are one client.
/// - Urgent waiters leave before all others, and take turns among themselves.
/// - A client whose waiters cannot be served now is passed over. It keeps its turn.
/// - When the queue is full, a newcomer displaces the newest waiter of the client with the most places. It does so
///   only if its own client then holds no more places than that client. A client therefore never waits for a place
///   that another one holds beyond its share. Two clients with equal shares do not displace each other.
package struct FairQueue<Element> {
    package enum Admission {
        case queued(WaiterTicket)
        /// The newcomer has its ticket; the other waiter is to be refused.
        case displaced(WaiterTicket, Element, by: WaiterTicket)
        case refused
    }

    fileprivate struct Waiter {
        let element: Element
        let number: UInt32
        let client: Int
        let isUrgent: Bool
    }

    let limit: Int
    package private(set) var count = 0
    private var waiters: [Waiter?] = []
    private var freeWaiters: [Int] = []
    private var links = LinkedSlots()
    private var clients: [WaitingClient?] = []
    private var freeClients: [Int] = []
    private var numbers: [String?: Int] = [:]
    private var urgentTurns = ClientTurns()
    private var ordinaryTurns = ClientTurns()
    private var lastNumber: UInt32 = 0

    package init(limit: Int) { self.limit = limit }

    var isEmpty: Bool { count == 0 }
    var isFirstUrgent: Bool { !urgentTurns.order.isEmpty }

    /// The one that ``popFirst()`` takes.
    var first: Element? { firstSlot.flatMap { waiters[$0]?.element } }

    private var firstSlot: Int? {
        let order = isFirstUrgent ? urgentTurns.order : ordinaryTurns.order
        guard !order.isEmpty, let client = clients[order.first] else { return nil }
        return isFirstUrgent ? client.urgent.first : client.ordinary.first
    }

    /// The first one that can be served, in the order of ``popFirst()``.
    ///
    /// - Parameter canServe: Asked for the first waiter of each client.
    func first(where canServe: (Element) -> Bool) -> (ticket: WaiterTicket, element: Element)? {
        guard let slot = firstSlot(where: canServe), let ticket = ticket(of: slot), let waiter = waiters[slot] else {
            return nil
        }
        return (ticket, waiter.element)
    }

    private func firstSlot(where canServe: (Element) -> Bool) -> Int? {
        firstSlot(isUrgent: true, where: canServe) ?? firstSlot(isUrgent: false, where: canServe)
    }

    private func firstSlot(isUrgent: Bool, where canServe: (Element) -> Bool) -> Int? {
        func slot(of client: Int) -> Int? { clients[client]?[isUrgent].first }
        let turns = isUrgent ? urgentTurns : ordinaryTurns
        let client = turns.first { client in
            guard let slot = slot(of: client), let waiter = waiters[slot] else { return false }
            return canServe(waiter.element)
        }
        return client.flatMap(slot)
    }

    /// Places that the client holds.
    func held(by client: String?) -> Int {
        guard let number = numbers[client] else { return 0 }
        return clients[number]?.held ?? 0
    }

    package mutating func append(_ element: Element, client: String?, isUrgent: Bool = false) -> Admission {
        guard count >= limit else { return .queued(insert(element, client, isUrgent)) }
        guard let slot = displaceable(for: client), let ticket = ticket(of: slot), let displaced = take(slot) else {
            return .refused
        }
        return .displaced(ticket, displaced, by: insert(element, client, isUrgent))
    }

    package mutating func popFirst() -> (ticket: WaiterTicket, element: Element)? {
        guard let slot = firstSlot, let ticket = ticket(of: slot), let element = pop(ticket) else { return nil }
        return (ticket, element)
    }

    /// Takes a waiter whose turn it is.
    @discardableResult
    mutating func pop(_ ticket: WaiterTicket) -> Element? {
        has(ticket) ? take(Int(ticket.slot), endsTurn: true) : nil
    }

    /// - Returns: nil when the waiter has left before.
    @discardableResult
    package mutating func remove(_ ticket: WaiterTicket) -> Element? {
        has(ticket) ? take(Int(ticket.slot)) : nil
    }

    private func has(_ ticket: WaiterTicket) -> Bool {
        let slot = Int(ticket.slot)
        return slot < waiters.count && waiters[slot]?.number == ticket.number
    }

    // MARK: Places

    private mutating func insert(_ element: Element, _ name: String?, _ isUrgent: Bool) -> WaiterTicket {
        let client = client(name)
        lastNumber &+= 1
        let waiter = Waiter(element: element, number: lastNumber, client: client, isUrgent: isUrgent)
        let slot = freeWaiters.popLast() ?? waiters.count
        if slot == waiters.count { waiters.append(waiter) } else { waiters[slot] = waiter }
        count += 1
        change(client) { record, links in
            record.held += 1
            links.append(slot, to: &record[isUrgent])
        }
        checkInvariants()
        return WaiterTicket(slot: Int32(truncatingIfNeeded: slot), number: lastNumber)
    }

    private mutating func take(_ slot: Int, endsTurn: Bool = false) -> Element? {
        guard let waiter = waiters[slot] else { return nil }
        waiters[slot] = nil
        freeWaiters.append(slot)
        count -= 1
        change(waiter.client, endsTurn: endsTurn ? waiter.isUrgent : nil) { record, links in
            record.held -= 1
            links.remove(slot, from: &record[waiter.isUrgent])
        }
        checkInvariants()
        return waiter.element
    }

    private func ticket(of slot: Int) -> WaiterTicket? {
        guard let waiter = waiters[slot] else { return nil }
        return WaiterTicket(slot: Int32(truncatingIfNeeded: slot), number: waiter.number)
    }

    /// Looks at all clients that wait; only when the queue is full.
    private func displaceable(for name: String?) -> Int? {
        let most = clients.lazy.compactMap { $0 }.max { $0.held < $1.held }
        guard let most, held(by: name) + 1 < most.held else { return nil }
        return most.ordinary.isEmpty ? most.urgent.last : most.ordinary.last
    }

    // MARK: Clients

    private mutating func client(_ name: String?) -> Int {
        if let number = numbers[name] { return number }
        let (client, number) = (WaitingClient(name: name), freeClients.popLast() ?? clients.count)
        if number == clients.count { clients.append(client) } else { clients[number] = client }
        numbers[name] = number
        return number
    }

    /// Changes the lists of a client, and gives it the turns that it then has.
    ///
    /// - Parameter endsTurn: The turn that is over: of urgent waiters, or of the others.
    private mutating func change(
        _ number: Int,
        endsTurn: Bool? = nil,
        _ body: (inout WaitingClient, inout LinkedSlots) -> Void
    ) {
        guard var client = clients[number] else { return }
        let (wasUrgent, wasOrdinary) = (!client.urgent.isEmpty, !client.ordinary.isEmpty)
        body(&client, &links)
        clients[number] = client
        urgentTurns.update(number, from: wasUrgent, to: !client.urgent.isEmpty, endsTurn: endsTurn == true)
        ordinaryTurns.update(number, from: wasOrdinary, to: !client.ordinary.isEmpty, endsTurn: endsTurn == false)
        assert(
            client.held >= 0 && (client.held == 0) == (client.urgent.isEmpty && client.ordinary.isEmpty),
            "A client holds another number of places than it has waiters."
        )
        guard client.held == 0 else { return }
        clients[number] = nil
        numbers[client.name] = nil
        freeClients.append(number)
    }

    // MARK: Invariants

    private func checkInvariants() {
        assert((0...max(limit, 0)).contains(count), "More wait than there are places.")
        assert(count + freeWaiters.count == waiters.count, "A waiter's place was lost, or became free twice.")
        assert(numbers.count + freeClients.count == clients.count, "A client's record was lost, or became free twice.")
        assert(numbers.count <= count, "A client has a record, but no waiter.")
        assert(
            (count == 0) == (urgentTurns.order.isEmpty && ordinaryTurns.order.isEmpty),
            "Waiters have no turn, or a turn has no waiter."
        )
        assert(count == 0 || first != nil, "The client whose turn it is has no waiter.")
        assert(
            clients.count > 16 || clients.reduce(0) { $0 + ($1?.held ?? 0) } == count,
            "The places of all clients are not those of the queue."
        )
    }
}

extension FairQueue: Sendable where Element: Sendable {}

extension FairQueue.Waiter: Sendable where Element: Sendable {}

private struct WaitingClient: Sendable {
    let name: String?
    var held = 0
    var urgent = LinkedSlots.List()
    var ordinary = LinkedSlots.List()

    subscript(_ isUrgent: Bool) -> LinkedSlots.List {
        get { isUrgent ? urgent : ordinary }
        set { if isUrgent { urgent = newValue } else { ordinary = newValue } }
    }
}

/// The clients that have a waiter, in the order of their turns.
private struct ClientTurns: Sendable {
    private var links = LinkedSlots()
    private(set) var order = LinkedSlots.List()

    init() {}

    func first(where isFound: (Int) -> Bool) -> Int? { links.first(in: order, where: isFound) }

    mutating func update(_ client: Int, from waited: Bool, to waits: Bool, endsTurn: Bool) {
        if waited, !waits || endsTurn { links.remove(client, from: &order) }
        if waits, !waited || endsTurn { links.append(client, to: &order) }
    }
}

/// Doubly linked lists of slot numbers, so that a slot leaves the middle of a list in a few instructions.
///
/// The links of all slots are in one array. A slot is in one list at most.
private struct LinkedSlots: Sendable {
    struct List: Sendable {
        fileprivate(set) var first = none
        fileprivate(set) var last = none

        var isEmpty: Bool { first == none }
    }

    private struct Links: Sendable {
        var previous = none
        var next = none
    }

    private static let none = -1
    private var links: [Links] = []

    /// The first slot of the list, from its start, that meets the condition.
    func first(in list: List, where isFound: (Int) -> Bool) -> Int? {
        var slot = list.first
        while slot != Self.none {
            if isFound(slot) { return slot }
            slot = links[slot].next
        }
        return nil
    }

    mutating func append(_ slot: Int, to list: inout List) {
        assert(list.isEmpty || links[list.last].next == Self.none, "The last slot of a list has a successor.")
        while links.count <= slot { links.append(Links()) }
        links[slot] = Links(previous: list.last, next: Self.none)
        if list.isEmpty { list.first = slot } else { links[list.last].next = slot }
        list.last = slot
    }

    mutating func remove(_ slot: Int, from list: inout List) {
        let (previous, next) = (links[slot].previous, links[slot].next)
        assert(
            previous == Self.none ? list.first == slot : links[previous].next == slot,
            "A slot is not where its list has it."
        )
        assert(
            next == Self.none ? list.last == slot : links[next].previous == slot,
            "A slot is not where its list has it, from the end."
        )
        if previous == Self.none { list.first = next } else { links[previous].next = next }
        if next == Self.none { list.last = previous } else { links[next].previous = previous }
        assert((list.first == Self.none) == (list.last == Self.none), "A list has a start without an end.")
    }
}
