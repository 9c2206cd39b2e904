/// Decides whether a client may take one more of a number of places that clients share.
///
/// A client may take a place while it holds fewer than three times as many as are free. One client alone takes three
/// quarters of the places, and two clients take three sevenths each. A client that holds none gets one as long as a
/// place is free. No clients have to be counted, and no place is set aside for a client that does not come. Switches
/// divide their packet memory among ports by this rule (Choudhury and Hahne, "Dynamic queue length thresholds").
enum FairShare {
    /// - Parameters:
    ///   - own: Places that the client holds.
    ///   - total: Places that all clients hold, its own included.
    ///   - isShared: There are clients with names. Otherwise there are no other clients to leave places for, and each
    ///     request may take any place.
    static func allows(own: Int, total: Int, limit: Int, isShared: Bool = true) -> Bool {
        guard total < limit else { return false }
        return !isShared || allows(own: own, free: limit - total)
    }

    /// - Parameters:
    ///   - own: Places that the client holds.
    ///   - free: Places that no client holds.
    static func allows(own: Int, free: Int) -> Bool {
        // Three times what is free might be too large a number.
        own / 3 < free
    }
}

/// Places that clients share as ``FairShare`` allows, and how many each client holds.
struct ClientPlaces: Sendable {
    private var held: [String?: Int] = [:]
    private var total = 0

    init() {}

    /// - Parameters:
    ///   - client: nil for those without a name. They are one client.
    ///   - limit: Places of all clients.
    ///   - isShared: There are clients with names.
    /// - Returns: Whether the client has one more place now.
    mutating func take(for client: String?, limit: Int, isShared: Bool) -> Bool {
        let own = held[client] ?? 0
        guard FairShare.allows(own: own, total: total, limit: limit, isShared: isShared) else { return false }
        held[client] = own + 1
        total += 1
        assert(total <= limit, "Clients hold more places than there are.")
        checkInvariants()
        return true
    }

    mutating func giveBack(of client: String?) {
        guard let own = held[client] else { return }
        total -= 1
        held[client] = own > 1 ? own - 1 : nil
        checkInvariants()
    }

    private func checkInvariants() {
        assert(total >= held.count && held.isEmpty == (total == 0), "The places of all clients are not the total.")
        assert(
            held.count > 16 || held.values.reduce(0, +) == total,
            "The places of each client do not add up to the total."
        )
    }
}
