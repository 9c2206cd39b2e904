/// Closes connections that no request uses.
extension PoolState {
    /// A reload has no use for the pool: no connection is kept beyond the requests that are under way. Close what
    /// ``nextToClose()`` names.
    package mutating func retire() { isRetired = true }

    /// An idle or kept connection, for a shell that closes all of them.
    package mutating func nextToClose() -> ConnectionID? {
        defer { checkInvariants() }
        return hasSpare ? leaseOldest() : nil
    }

    /// The connection that has rested longest; a private one where all are.
    mutating func leaseOldest() -> ConnectionID {
        guard !idle.isEmpty else { return leaseKept(at: 0) }
        return leased(idle.removeFirst())
    }

    mutating func leaseKept(at place: Int) -> ConnectionID { leased(kept.remove(at: place)) }

    private mutating func leased(_ slot: Int32) -> ConnectionID {
        connections[Int(slot)].phase = .leased
        return ConnectionID(slot: slot, number: connections[Int(slot)].number)
    }
}
