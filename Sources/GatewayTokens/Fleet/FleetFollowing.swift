import GatewayHTTP

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
        if let unknown { return "It is not known whether the other gateways have followed: \(unknown)." }
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
    package var tenthsOfSeconds: Double { Double(wholeMilliseconds / 100) / 10 }
    /// In seconds, with three digits after the point.
    package var thousandthsOfSeconds: Double { Double(wholeMilliseconds) / 1000 }
}
