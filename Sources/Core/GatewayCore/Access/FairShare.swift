/// Decides whether a client may take one more of a number of places that clients share and that have no queue.
///
/// A client may take a place while it holds fewer than three times as many as are free. So one client that is alone takes
/// three quarters and leaves the rest for others, two take three sevenths each, and a client that holds none always gets one
/// while there is a free place. No clients have to be counted, and no place is set aside for a client that does not come.
/// Switches divide their packet memory among ports by this rule (Choudhury and Hahne, "Dynamic queue length thresholds").
package enum FairShare {
    /// - Parameters:
    ///   - own: Places that the client holds.
    ///   - total: Places that all clients hold, its own included.
    ///   - isShared: There are clients with names. Otherwise nobody else can come, and all places are for whoever asks.
    package static func allows(own: Int, total: Int, limit: Int, isShared: Bool = true) -> Bool {
        guard total < limit else { return false }
        // Three times what is free might be too large a number.
        return !isShared || own / 3 < limit - total
    }
}
