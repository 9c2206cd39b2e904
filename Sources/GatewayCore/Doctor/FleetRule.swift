/// What is said of the gateways that share a token database.
package enum FleetRule {
    /// - Parameter name: Of the database.
    package static func findings(of members: [FleetMember], _ name: String) -> [DoctorFinding] {
        let live = members.filter(\.isLive)
        guard !live.isEmpty else { return [] }
        let count = DoctorFinding(
            .store,
            .ok,
            name,
            "\(live.count.counted("gateway")) share\(live.count == 1 ? "s" : "") it"
        )
        return [count] + live.filter(\.isClockOff).map { clock($0, name) } + versions(live, name)
    }

    package static func unknown(_ reason: String, _ name: String) -> DoctorFinding {
        DoctorFinding(
            .store,
            .warning,
            name,
            "the gateways that share it cannot be listed: \(reason)",
            remedy: "Grant the rights that docs/fleet.md names."
        )
    }

    /// - Parameter missing: Rights on the table of gateways that the role of the gateway does not have, at least one.
    package static func rights(_ missing: [String], _ name: String) -> DoctorFinding {
        DoctorFinding(
            .store,
            .warning,
            name,
            "authgateway fleet does not list a gateway with this role, which lacks \(missing.joined(separator: ", "))"
                + " on authgateway.gateway",
            remedy: "As the owner of the tables, grant SELECT, INSERT, UPDATE and DELETE on authgateway.gateway to it."
        )
    }

    private static func clock(_ member: FleetMember, _ name: String) -> DoctorFinding {
        let heartbeat = member.heartbeat
        let seconds = heartbeat.clockOffset.wholeMilliseconds / 1000
        return DoctorFinding(
            .store,
            .warning,
            name,
            "its clock is \(seconds) s away from that of the gateway \(heartbeat.host) (\(heartbeat.id))",
            remedy: "Let both machines ask a time server.",
            command: "authgateway fleet"
        )
    }

    private static func versions(_ live: [FleetMember], _ name: String) -> [DoctorFinding] {
        let versions = Set(live.map(\.heartbeat.version)).sorted()
        guard versions.count > 1 else { return [] }
        let shown = versions.prefix(5).joined(separator: ", ") + (versions.count > 5 ? ", …" : "")
        return [
            DoctorFinding(
                .store,
                .warning,
                name,
                "its gateways have different versions: \(shown)",
                remedy: "Bring all gateways to the same version.",
                command: "authgateway fleet"
            )
        ]
    }
}
