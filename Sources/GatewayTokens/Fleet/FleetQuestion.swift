/// Which gateways have followed what was committed before a mark. It is asked until all live ones have, or the time is over.
package struct FleetQuestion: Sendable {
    package static let limit: Duration = .seconds(2)
    private static let pauses: [Duration] = [.milliseconds(20), .milliseconds(40), .milliseconds(80)]
    private static let longestPause: Duration = .milliseconds(150)

    private let mark: FleetMark
    /// The gateway that need not be asked; nil asks all.
    private let own: String?
    private var rounds = 0
    private(set) var members: [FleetMember] = []
    private var lags: [String: Duration] = [:]

    package init(_ mark: FleetMark, from own: String? = nil) {
        self.mark = mark
        self.own = own
    }

    /// - Parameters:
    ///   - members: What the database knows of all gateways.
    ///   - time: Since the mark was taken.
    /// - Returns: How long to wait before the next look; nil when there is nothing to wait for.
    package mutating func note(_ members: [FleetMember], after time: Duration) -> Duration? {
        self.members = members
        for member in members where lags[member.id] == nil && member.hasFollowed(mark) { lags[member.id] = time }
        defer { rounds += 1 }
        guard time < Self.limit, outstanding.contains(where: \.isLive) else { return nil }
        let pause = rounds < Self.pauses.count ? Self.pauses[rounds] : Self.longestPause
        return min(pause, Self.limit - time)
    }

    /// Those that have not followed, the one that was seen last first.
    package var outstanding: [FleetMember] {
        members.filter { $0.id != own && lags[$0.id] == nil }.sorted { ($0.seen, $0.id) < ($1.seen, $1.id) }
    }

    /// How long it took until this gateway had followed; nil while it has not.
    package func lag(of member: FleetMember) -> Duration? { lags[member.id] }
}
