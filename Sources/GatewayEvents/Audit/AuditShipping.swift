package import GatewayHTTP

/// How the copy of the audit log in the shared database is doing.
package struct AuditShipping: Hashable, Sendable {
    package struct Failure: Hashable, Sendable {
        package let since: UnixTime
        package let reason: String

        package init(since: UnixTime, reason: String) {
            self.since = since
            self.reason = reason
        }
    }

    /// Events may wait for the database for so long before somebody is told.
    package static let patience: Duration = .seconds(60)
    /// The same where no token is used before its event is in the database.
    package static let requiredPatience: Duration = .seconds(5)

    /// Events that the database does not have yet.
    package var unshipped: Int
    /// nil while the database takes what it gets.
    package var failure: Failure?
    /// `audit.store: postgres`: an event that is not in the database does not count as recorded.
    package var isRequired: Bool

    package init(unshipped: Int, failure: Failure? = nil, isRequired: Bool = false) {
        self.unshipped = unshipped
        self.failure = failure
        self.isRequired = isRequired
    }

    /// The failure that somebody should know of.
    package func trouble(at now: UnixTime) -> Failure? {
        guard let failure, isRequired || unshipped > 0 else { return nil }
        return now - failure.since >= (isRequired ? Self.requiredPatience : Self.patience) ? failure : nil
    }

    /// - Parameter effect: What follows where the database is required.
    package func sentence(_ failure: Failure, effect: String) -> String {
        let waiting = "\(unshipped.counted("event")) \(unshipped == 1 ? "waits" : "wait")"
        guard isRequired else {
            return
                "since \(failure.since.rfc3339) the database does not take the audit log (\(waiting)): \(failure.reason). "
                + "They stay in the local log, and are sent once the database takes them"
        }
        return
            "since \(failure.since.rfc3339) events are not committed in the database (audit.store: postgres, \(waiting)), "
            + "so \(effect): \(failure.reason)"
    }
}
