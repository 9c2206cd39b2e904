package import GatewayFiles
import GatewayHTTP
package import GatewayTokenStores
package import GatewayTokens

/// Findings about the token store and the audit log, which are read without a lock and never written to.
package enum StorageRule {
    package enum Store: Hashable, Sendable {
        case memory
        /// Not there yet.
        case missing
        /// Not there yet, and this user may not create it.
        case barred(FileBarrier)
        /// Not looked at, for a reason that another finding gives.
        case unseen(Unseen)
        /// The key is missing, and what was encrypted with it is there.
        case keyMissing(String)
        case usable
        /// What the store, its program or the system said.
        case unusable(String)
        /// The store is a program, which was not called.
        case notAsked
    }

    /// Why a file was not looked at.
    package enum Unseen: Hashable, Sendable {
        /// This user may not look into its folder.
        case hidden
        /// It is in the state directory, which cannot be created.
        case noStateDirectory

        fileprivate var text: String {
            switch self {
            case .hidden: "this user may not look at it; run doctor as the gateway's user"
            case .noStateDirectory: "it is in the state directory, which cannot be created (see files)"
            }
        }
    }

    package enum Audit: Hashable, Sendable {
        case missing
        /// This user may not create it, or may not write to it.
        case barred(FileBarrier)
        case unseen(Unseen)
        case keyMissing(String)
        /// - rows: How many of the newest fit together and with the head file.
        case intact(rows: Int)
        case broken(String)
        case unusable(String)
    }

    /// - Parameter name: The path, or the program.
    package static func store(_ store: Store, _ name: String) -> DoctorFinding {
        func error(_ text: String, _ remedy: String?) -> DoctorFinding {
            DoctorFinding(.store, .error, name, text, remedy: remedy)
        }
        switch store {
        case .memory: return DoctorFinding(.store, .ok, name, "tokens are kept in memory; a restart fetches them anew")
        case .missing: return DoctorFinding(.store, .ok, name, "does not exist yet; the first start creates it")
        case .barred(let barrier): return barred(.store, name, "the token store", barrier)
        case .unseen(let reason): return DoctorFinding(.store, .skipped, name, reason.text)
        case .usable: return DoctorFinding(.store, .ok, name, "opens, its key fits, and this user may write to it")
        case .notAsked:
            return DoctorFinding(
                .store,
                .skipped,
                name,
                "not looked at: a program, asked only for tokens that are not tried (see credentials)"
            )
        case .keyMissing(let key): return error("the key \(key) is missing", restore(key, name))
        case .unusable(let reason): return error(reason, nil)
        }
    }

    package static func audit(_ audit: Audit, _ path: String) -> DoctorFinding {
        switch audit {
        case .missing: return DoctorFinding(.audit, .ok, path, "does not exist yet; the first start creates it")
        case .barred(let barrier): return barred(.audit, path, "the audit log", barrier)
        case .unseen(let reason): return DoctorFinding(.audit, .skipped, path, reason.text)
        case .intact(let rows):
            let text =
                rows == 0
                ? "opens; it has no event yet"
                : "opens; \(rows == 1 ? "its event" : "the newest \(rows) events") and the head file fit"
            return DoctorFinding(.audit, .ok, path, text)
        case .keyMissing(let key):
            return DoctorFinding(.audit, .error, path, "the key \(key) is missing", remedy: restore(key, path))
        case .broken(let reason):
            return DoctorFinding(
                .audit,
                .error,
                path,
                reason,
                remedy: "Keep a copy of the log. This verifies all of it:",
                command: "authgateway audit verify"
            )
        case .unusable(let reason): return DoctorFinding(.audit, .error, path, reason)
        }
    }

    private static func barred(
        _ group: DoctorFinding.Group,
        _ path: String,
        _ name: String,
        _ barrier: FileBarrier
    ) -> DoctorFinding {
        let text = "\(barrier.text), so \(name) cannot be opened"
        let remedy = barrier.command == nil ? "Correct that, or name another place." : "Correct the permissions:"
        return DoctorFinding(group, .error, path, text, remedy: remedy, command: barrier.command)
    }

    private static func restore(_ key: String, _ database: String) -> String {
        "Restore \(key) from its copy, or move \(database) away to start over."
    }
}

/// Findings about a token database that gateways share.
package enum DatabaseRule {
    package static func findings(of database: DatabaseObservation, _ name: String) -> [DoctorFinding] {
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

    private static func lossy(_ database: DatabaseObservation, _ name: String) -> DoctorFinding {
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
                + "A single-use refresh token among them is lost for good: its credential needs a new login."
        )
    }
}

/// Findings about the gateways that share a token database.
package enum FleetRule {
    /// - Parameter name: The name of the database.
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

/// Findings about the gateway's own files: the state directory, and the keys in it.
package enum FileRule {
    package struct Observation: Hashable, Sendable {
        /// The permission bits (0777).
        package let mode: UInt32
        package let isFolder: Bool
        /// Whether it belongs to the user who asks.
        package let isOwn: Bool

        package init(mode: UInt32, isFolder: Bool, isOwn: Bool) {
            self.mode = mode
            self.isFolder = isFolder
            self.isOwn = isOwn
        }
    }

    /// - Parameters:
    ///   - seen: nil when nothing is there.
    ///   - barrier: What keeps the first start from creating it, if nothing is there.
    package static func stateDirectory(
        _ path: String,
        _ seen: Observation?,
        barrier: FileBarrier? = nil
    ) -> DoctorFinding {
        func error(_ text: String, _ remedy: String, command: String? = nil) -> DoctorFinding {
            DoctorFinding(.files, .error, path, text, remedy: remedy, command: command)
        }
        guard let seen else {
            if let barrier {
                let text = "\(barrier.text), so the state directory cannot be created"
                let command = "install -d -m 700 -o \(barrier.user) \(ShellWord.quoted(path))"
                return error(text, "Set state_directory to a writable place, or create it as root:", command: command)
            }
            return DoctorFinding(
                .files,
                .ok,
                path,
                "the state directory does not exist yet; the first start creates it"
            )
        }
        guard seen.isFolder else {
            return error("the state directory is not a directory", "Set state_directory to another place.")
        }
        guard seen.isOwn else {
            let remedy = "Run this as the gateway's user, or set state_directory to a place of your own."
            return error("the state directory belongs to another user", remedy)
        }
        guard seen.mode & 0o022 == 0 else {
            let command = "chmod 700 \(ShellWord.quoted(path))"
            return error("others may write to the state directory", "Remove that permission.", command: command)
        }
        return DoctorFinding(.files, .ok, path, "the state directory is this user's own")
    }

    /// A file that only its owner may read: a key, or the token store.
    ///
    /// - Parameter seen: nil when nothing is there, which is nothing to say here.
    package static func secret(_ path: String, _ seen: Observation?) -> DoctorFinding? {
        guard let seen else { return nil }
        guard seen.isOwn else {
            let remedy = "Run this as the gateway's user, or give the file to that user."
            return DoctorFinding(.files, .error, path, "belongs to another user", remedy: remedy)
        }
        guard seen.mode & 0o077 == 0 else {
            return DoctorFinding(
                .files,
                .error,
                path,
                "others may read or write it (mode \(String(seen.mode, radix: 8)))",
                remedy: "Remove that permission. If another user may have read the file, replace the key, too.",
                command: "chmod 600 \(ShellWord.quoted(path))"
            )
        }
        return DoctorFinding(.files, .ok, path, "only its owner may read it")
    }

    /// How little room on the disk is worth a word.
    private static let scarce = 100 << 20
    private static let exhausted = 1 << 20

    /// Whether a database can grow.
    ///
    /// - Parameter free: Bytes.
    package static func room(_ group: DoctorFinding.Group, _ path: String, free: Int) -> DoctorFinding? {
        guard free < scarce else { return nil }
        return DoctorFinding(
            group,
            free < exhausted ? .error : .warning,
            path,
            "the disk has \(free >> 20) MiB left",
            remedy: "Free some space.",
            command: "df -h \(ShellWord.quoted(path))"
        )
    }
}
