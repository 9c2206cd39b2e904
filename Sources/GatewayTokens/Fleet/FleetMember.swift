package import GatewayHTTP

/// What a gateway reports about itself to the others.
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
    static let liveLimit: Duration = .seconds(5)
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
    static let maximumTime: Duration = .seconds(1)

    /// - Parameters:
    ///   - database: What its clock showed between `sent` and `received`.
    /// - Returns: The database's clock minus the gateway's; nil when the answer took too long.
    package static func offset(of database: UnixTime, sent: UnixTime, received: UnixTime) -> Duration? {
        let time = received - sent
        guard time >= .zero, time <= maximumTime else { return nil }
        return database - (sent + time / 2)
    }
}

/// A transaction of the database that gateways share. It stands for all that was committed before it began.
package struct FleetMark: Hashable, Comparable, Sendable {
    package let transaction: Int64

    package init(_ transaction: Int64) { self.transaction = transaction }

    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.transaction < rhs.transaction }
}

/// What a gateway has followed of what others did, and so what it may acknowledge.
package struct FleetAcknowledgement: Sendable {
    /// What gateways change for each other.
    package enum Part: CaseIterable, Sendable {
        case locks
        case tokens
    }

    private var followed: [Part: FleetMark] = [:]

    package init() {}

    /// - Parameter mark: One that was known before the gateway began to follow. It has ended all use of withdrawn tokens since.
    package mutating func follow(_ part: Part, upTo mark: FleetMark) {
        // Also where it is lower: after the restore of a database, transactions count from an earlier number.
        followed[part] = mark
    }

    /// nil until each part was followed once.
    package var mark: FleetMark? {
        followed.count == Part.allCases.count ? followed.values.min() : nil
    }
}
