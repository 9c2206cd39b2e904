/// Places that clients share as ``FairShare`` allows, and how many each client holds.
package struct ClientPlaces: Sendable {
    private var held: [String?: Int] = [:]
    private var total = 0

    package init() {}

    /// - Parameters:
    ///   - client: nil for those without a name. They are one client.
    ///   - limit: Places of all clients.
    ///   - isShared: There are clients with names.
    /// - Returns: Whether the client has one more place now.
    package mutating func take(for client: String?, limit: Int, isShared: Bool) -> Bool {
        let own = held[client] ?? 0
        guard FairShare.allows(own: own, total: total, limit: limit, isShared: isShared) else { return false }
        held[client] = own + 1
        total += 1
        assert(total <= limit, "Clients hold more places than there are.")
        checkInvariants()
        return true
    }

    package mutating func giveBack(of client: String?) {
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
