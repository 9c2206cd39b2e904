/// Decides whether a client may take one more of a number of places that clients share.
///
/// A client may take a place while it holds fewer than three times as many as are free. One client alone takes three
/// quarters of the places, and two clients take three sevenths each. A client that holds none gets one as long as a
/// place is free. No clients have to be counted, and no place is set aside for a client that does not come. Switches
/// divide their packet memory among ports by this rule (Choudhury and Hahne, "Dynamic queue length thresholds").
package enum FairShare {
    /// - Parameters:
    ///   - own: Places that the client holds.
    ///   - total: Places that all clients hold, its own included.
    ///   - isShared: There are clients with names. Otherwise there are no other clients to leave places for, and each
    ///     request may take any place.
    package static func allows(own: Int, total: Int, limit: Int, isShared: Bool = true) -> Bool {
        guard total < limit else { return false }
        return !isShared || allows(own: own, free: limit - total)
    }

    /// - Parameters:
    ///   - own: Places that the client holds.
    ///   - free: Places that no client holds.
    package static func allows(own: Int, free: Int) -> Bool {
        // Three times what is free might be too large a number.
        own / 3 < free
    }
}
