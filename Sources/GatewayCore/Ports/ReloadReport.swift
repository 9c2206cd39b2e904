/// What became of a reload.
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
    /// As people read them; empty when it was loaded.
    package var problems: String
    package var changes: [PlanChange]
    package var warnings: String

    package init(
        cause: Cause,
        outcome: Outcome,
        problems: String = "",
        changes: [PlanChange] = [],
        warnings: String = ""
    ) {
        self.cause = cause
        self.outcome = outcome
        self.problems = problems
        self.changes = changes
        self.warnings = warnings
    }
}

/// The plan that is served, to be compared with another one in another process.
package struct ServedPlan: Hashable, Sendable, Codable {
    package var digest: PlanDigest
    /// Hexadecimal, of the digests in it; new with every process.
    package var key: String

    package init(digest: PlanDigest, key: String) {
        self.digest = digest
        self.key = key
    }
}
