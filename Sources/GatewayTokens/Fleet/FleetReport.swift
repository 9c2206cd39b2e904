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
    package static func mostCommon(_ values: [String]) -> String? {
        let counts = Dictionary(values.map { ($0, 1) }, uniquingKeysWith: +)
        guard let largest = counts.values.max() else { return nil }
        let found = counts.filter { $0.value == largest }
        return found.count == 1 ? found.first?.key : nil
    }
}
