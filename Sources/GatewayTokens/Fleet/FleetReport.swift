import GatewayHTTP

/// The gateways that share a token store, as `authgateway fleet` shows them.
package struct FleetReport: Hashable, Sendable, Codable {
    package struct Gateway: Hashable, Sendable, Codable {
        package var id: String
        package var host: String
        package var version: String
        /// Most gateways have another version.
        package var versionDiffers: Bool
        package var configurationDigest: String
        /// Most gateways have another configuration.
        package var configurationDiffers: Bool
        /// RFC 3339.
        package var startedAt: String
        /// The database's clock minus the gateway's.
        package var clockOffsetSeconds: Double
        package var clockIsOff: Bool
        package var lastSeenSeconds: Double
        /// How long it took until the gateway had followed the question; nil when it has not within 2 s.
        package var lagSeconds: Double?
        /// Rows of the audit log that the database does not have yet.
        package var unshipped: Int
    }

    package var gateways: [Gateway]

    /// - Parameter question: After the last look.
    package init(_ question: FleetQuestion) {
        let members = question.members.sorted { ($0.heartbeat.host, $0.id) < ($1.heartbeat.host, $1.id) }
        let live = members.filter(\.isLive)
        let counted = (live.isEmpty ? members : live).map(\.heartbeat)
        let version = Self.mostCommon(counted.map(\.version))
        let digest = Self.mostCommon(counted.map(\.configurationDigest))
        gateways = members.map { member in
            let heartbeat = member.heartbeat
            return Gateway(
                id: member.id,
                host: heartbeat.host,
                version: heartbeat.version,
                versionDiffers: heartbeat.version != version,
                configurationDigest: heartbeat.configurationDigest,
                configurationDiffers: heartbeat.configurationDigest != digest,
                startedAt: heartbeat.startedAt,
                clockOffsetSeconds: heartbeat.clockOffset.thousandthsOfSeconds,
                clockIsOff: member.isClockOff,
                lastSeenSeconds: member.seen.tenthsOfSeconds,
                lagSeconds: question.lag(of: member)?.thousandthsOfSeconds,
                unshipped: heartbeat.unshipped
            )
        }
    }

    /// nil when no value is more common than all others: each of them differs then.
    static func mostCommon(_ values: [String]) -> String? {
        let counts = Dictionary(values.map { ($0, 1) }, uniquingKeysWith: +)
        guard let largest = counts.values.max() else { return nil }
        let found = counts.filter { $0.value == largest }
        return found.count == 1 ? found.first?.key : nil
    }
}

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

    /// The gateways that have not followed, most recently seen first.
    var outstanding: [FleetMember] {
        members.filter { $0.id != own && lags[$0.id] == nil }.sorted { ($0.seen, $0.id) < ($1.seen, $1.id) }
    }

    /// How long it took until this gateway had followed; nil while it has not.
    package func lag(of member: FleetMember) -> Duration? { lags[member.id] }
}

/// Whether other gateways have followed what an operator did on one.
package struct FleetFollowing: Hashable, Sendable, Codable {
    package struct Gateway: Hashable, Sendable, Codable {
        package var host: String
        package var id: String
        package var lastSeenSeconds: Double
    }

    static let maximumNames = 5

    /// The gateways that have not acknowledged it, the one that was seen last first.
    package var unacknowledged: [Gateway] = []
    /// Why that is not known; nil when it is.
    package var unknown: String?

    package init(_ question: FleetQuestion) {
        unacknowledged = question.outstanding.map { member in
            Gateway(host: member.heartbeat.host, id: member.id, lastSeenSeconds: member.seen.tenthsOfSeconds)
        }
    }

    package init(unknown reason: String) { unknown = reason }

    /// For the person who asked; nil when all have followed.
    package var sentence: String? {
        if let unknown { return "It is not known whether the other gateways have applied it: \(unknown)." }
        guard !unacknowledged.isEmpty else { return nil }
        let names = unacknowledged.prefix(Self.maximumNames).map { gateway in
            "\(gateway.host) (\(gateway.id), last seen \(Int(gateway.lastSeenSeconds)) s ago)"
        }
        let more = unacknowledged.count - names.count
        let list = names.joined(separator: ", ") + (more > 0 ? " and \(more) more" : "")
        let subject = unacknowledged.count == 1 ? "1 gateway has" : "\(unacknowledged.count) gateways have"
        return "\(subject) not acknowledged it: \(list)."
    }
}

extension Duration {
    /// In seconds, with one digit after the point.
    var tenthsOfSeconds: Double { Double(wholeMilliseconds / 100) / 10 }
    /// In seconds, with three digits after the point.
    package var thousandthsOfSeconds: Double { Double(wholeMilliseconds) / 1000 }
}
