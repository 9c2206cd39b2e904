package import GatewayHTTP

/// What a gateway tells of itself.
package struct FleetHeartbeat: Hashable, Sendable {
    /// The name of its audit chain.
    package var id: String
    package var host: String
    package var version: String
    /// RFC 3339.
    package var startedAt: String
    package var configurationDigest: String
    /// The database's clock minus the gateway's.
    package var clockOffset: Duration
    /// Rows of the audit log that the database does not have yet.
    package var unshipped: Int
    /// See ``FleetAcknowledgement``; 0 stands for nothing.
    package var acknowledged: FleetMark

    package init(
        id: String,
        host: String,
        version: String,
        startedAt: String,
        configurationDigest: String,
        clockOffset: Duration = .zero,
        unshipped: Int = 0,
        acknowledged: FleetMark = FleetMark(0)
    ) {
        self.id = id
        self.host = host
        self.version = version
        self.startedAt = startedAt
        self.configurationDigest = configurationDigest
        self.clockOffset = clockOffset
        self.unshipped = unshipped
        self.acknowledged = acknowledged
    }
}

/// A gateway as the database knows it.
package struct FleetMember: Hashable, Sendable {
    /// A gateway that was not seen for longer is not waited for.
    package static let liveLimit: Duration = .seconds(5)
    /// More than the clocks of machines that ask a time server differ.
    package static let maximumClockOffset: Duration = .seconds(5)

    package var heartbeat: FleetHeartbeat
    /// How long ago its last heartbeat was, by the database's clock.
    package var seen: Duration

    package init(_ heartbeat: FleetHeartbeat, seen: Duration) {
        self.heartbeat = heartbeat
        self.seen = seen
    }

    package var id: String { heartbeat.id }
    package var isLive: Bool { seen <= Self.liveLimit }

    package var isClockOff: Bool {
        heartbeat.clockOffset > Self.maximumClockOffset || heartbeat.clockOffset < .zero - Self.maximumClockOffset
    }

    package func hasFollowed(_ mark: FleetMark) -> Bool { heartbeat.acknowledged >= mark }
}

/// How far the database's clock is from the gateway's.
package enum FleetClock {
    /// An answer that took longer says little.
    package static let maximumTime: Duration = .seconds(1)

    /// - Parameters:
    ///   - database: What its clock showed between `sent` and `received`.
    /// - Returns: The database's clock minus the gateway's; nil when the answer took too long.
    package static func offset(of database: UnixTime, sent: UnixTime, received: UnixTime) -> Duration? {
        let time = received - sent
        guard time >= .zero, time <= maximumTime else { return nil }
        return database - (sent + time / 2)
    }
}
