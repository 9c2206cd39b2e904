/// What is said of the token store and the audit log, which are looked at without a write and without a lock.
package enum StorageRule {
    package enum Store: Hashable, Sendable {
        case memory
        /// Not there yet.
        case missing
        /// The key is missing, and what was encrypted with it is there.
        case keyMissing(String)
        case usable
        /// What the store, its program or the system said.
        case unusable(String)
        /// Of a program that was not called.
        case notAsked
    }

    package enum Audit: Hashable, Sendable {
        case missing
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
        case .missing: return DoctorFinding(.store, .ok, name, "not there yet; the first start makes it")
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
        case .missing: return DoctorFinding(.audit, .ok, path, "not there yet; the first start makes it")
        case .intact(let rows):
            let text =
                rows == 0 ? "opens; it has no event yet" : "opens; the newest \(rows) events and the head file fit"
            return DoctorFinding(.audit, .ok, path, text)
        case .keyMissing(let key):
            return DoctorFinding(.audit, .error, path, "the key \(key) is missing", remedy: restore(key, path))
        case .broken(let reason):
            return DoctorFinding(
                .audit,
                .error,
                path,
                reason,
                remedy: "Keep a copy of the log. This looks at all of it:",
                command: "authgateway audit verify"
            )
        case .unusable(let reason): return DoctorFinding(.audit, .error, path, reason)
        }
    }

    private static func restore(_ key: String, _ database: String) -> String {
        "Restore \(key) from its copy, or move \(database) away to begin anew."
    }
}
