package import GatewayProxy

/// What came of a rotation of the token store's key.
package struct KeyRotationReport: Hashable, Sendable, Codable {
    /// How many were re-encrypted.
    package var tokens: Int
    /// Where the new key is.
    package var file: String
}

/// The answer to a backup that was recorded.
package struct BackupNote: Hashable, Sendable, Codable {
    /// Which gateway it is, as the audit log names it.
    package var instance: String
}

/// What came of writing uses and requests to the audit log.
package struct AuditFlush: Hashable, Sendable, Codable {
    /// Whether all that was counted before is in the log now.
    package var isComplete: Bool
}

/// What came of a rotation of the local CA.
package struct AuthorityRotationReport: Hashable, Sendable, Codable {
    /// The hosts and suffixes that it can sign for.
    package var scopes: [String]
    /// Its certificates, which have to be trusted.
    package var file: String

    package init(scopes: [String], file: String) {
        self.scopes = scopes
        self.file = file
    }
}

package struct RouteStatus: Hashable, Sendable, Codable {
    package var name: String
    package var upstream: String
    package var path: String
    package var hosts: [String]
    /// nil when the route forwards without authentication.
    package var credential: String?
    package var strategy: String
    /// What the route still needs from a person before it works; nil when nothing.
    package var needs: String?
    /// How its upstream has answered lately; nil before the first request.
    package var health: UpstreamHealth?
    /// The engines that are handed its credential; nil where none is.
    package var authz: [String]?
}

/// The result of a reload.
package struct ReloadReport: Hashable, Sendable, Codable {
    package enum Cause: String, Sendable, Codable {
        /// A hang-up signal.
        case signal
        /// The files changed.
        case files
        /// A program printed another secret when its `ttl` had ended.
        case secret
        case `operator`
    }

    package enum Outcome: String, Sendable, Codable {
        case loaded
        /// The configuration has a problem, or changes what needs a restart.
        case refused
        /// Something else stood in the way, such as an address in use.
        case failed
    }

    package var cause: Cause
    package var outcome: Outcome
    /// The problems as people read them; empty if it was loaded.
    package var problems = ""
    package var changes: [PlanChange] = []
    package var warnings = ""
}

/// The plan that is served, to be compared with another one in another process.
package struct ServedPlan: Hashable, Sendable, Codable {
    package var digest: PlanDigest
    /// Hexadecimal, of the digests in it; new with every process.
    package var key: String
    /// The variables of `run --sandbox`, which are needed to read the same configuration; nil without a sandbox.
    package var sandbox: [String: String]?

    package init(digest: PlanDigest, key: String) {
        self.digest = digest
        self.key = key
    }
}
