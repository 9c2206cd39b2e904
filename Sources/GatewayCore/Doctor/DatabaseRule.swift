/// What is said of a token database that gateways share.
package enum DatabaseRule {
    package struct Observation: Hashable, Sendable {
        /// Such as 15.3.
        package var serverVersion: String
        package var isReadOnly = false
        /// The server's setting.
        package var synchronousCommit = "on"
        /// Standbys, and those that a commit waits for.
        package var standbys = 0
        package var synchronousStandbys = 0
        /// The database's clock minus the gateway's.
        package var clockOffset: Duration = .zero
        /// Changes of other gateways arrive by LISTEN.
        package var listens = true

        package init(serverVersion: String) { self.serverVersion = serverVersion }

        /// After a failover the tokens of the last commit are there.
        package var keepsLastCommit: Bool {
            guard !["off", "local"].contains(synchronousCommit) else { return false }
            return standbys == 0 || synchronousStandbys > 0
        }
    }

    package static func findings(of database: Observation, _ name: String) -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        if database.isReadOnly {
            findings.append(
                DoctorFinding(
                    .store,
                    .error,
                    name,
                    "takes no writes: it is a standby, or default_transaction_read_only is on",
                    remedy: "Name the primary in tokens.url, or all hosts with target_session_attrs=read-write."
                )
            )
        }
        if !database.keepsLastCommit { findings.append(lossy(database, name)) }
        let maximumOffset = FleetMember.maximumClockOffset
        if database.clockOffset > maximumOffset || database.clockOffset < .zero - maximumOffset {
            let seconds = database.clockOffset.wholeMilliseconds / 1000
            findings.append(
                DoctorFinding(
                    .store,
                    .warning,
                    name,
                    "its clock is \(seconds) s away from that of this machine",
                    remedy:
                        "Let both machines ask a time server. Leases go by the database's clock, the age of tokens by this one."
                )
            )
        }
        if !database.listens {
            findings.append(
                DoctorFinding(
                    .store,
                    .warning,
                    name,
                    "a pooler is in between, so changes of other gateways are asked for twice a second",
                    remedy: "Name the server itself as tokens.listen_url."
                )
            )
        }
        let text = "PostgreSQL \(database.serverVersion) answers, and its key fits"
        return [DoctorFinding(.store, .ok, name, text)] + findings
    }

    private static func lossy(_ database: Observation, _ name: String) -> DoctorFinding {
        let reason =
            database.standbys > 0 && database.synchronousStandbys == 0
            ? "no standby is synchronous"
            : "synchronous_commit is \(database.synchronousCommit)"
        return DoctorFinding(
            .store,
            .warning,
            name,
            "a failover or a crash can lose the last tokens, since \(reason)",
            remedy: "Set synchronous_commit to on, and name a standby in synchronous_standby_names. "
                + "Refresh tokens that are valid once end with what was lost."
        )
    }
}
