package import GatewayEvents
package import GatewayHTTP

/// What is wrong with the files of a gateway.
package struct StorageHealth: Hashable, Sendable {
    /// The audit log was started again, because its database was gone.
    package struct Loss: Hashable, Sendable {
        /// The number of the last row that is lost.
        package let lostTo: Int64
        package let at: UnixTime

        package init(lostTo: Int64, at: UnixTime) {
            self.lostTo = lostTo
            self.at = at
        }
    }

    /// Why events cannot be recorded; nil when they can.
    package var auditFailure: String?
    /// What else cannot be written to the audit log or removed from it, because pages of it are damaged.
    package var auditDamage: String?
    package var room: AuditRoom
    package var auditLoss: Loss?
    /// What was tampered with in the audit log, as far as it was recomputed.
    package var auditBreach: String?
    /// What the database should have of the audit log, and does not take; nil where that is well, or nothing is shipped.
    package var unshipped: AuditShipping?
    /// Withdrawals that wait to be recorded.
    package var unrecorded = 0
    /// Why tokens cannot be stored; nil when they can.
    package var tokenFailure: String?
    /// The file of the installation key, when it is gone.
    package var missingKey: String?

    package init(room: AuditRoom) { self.room = room }

    /// - Parameters:
    ///   - onFailure: What to do on a failure of the audit log.
    ///   - rotating: The credentials whose renewal needs the token store.
    /// - Returns: A sentence for each trouble, and whether requests suffer.
    package func troubles(_ onFailure: AuditPlan.OnFailure, rotating: [String]) -> (reasons: [String], blocks: Bool) {
        var reasons: [String] = []
        var blocks = false
        let isBlocking = onFailure == .block
        let effect = isBlocking ? "no new token is used" : "tokens are used without a record (on_failure: degrade)"
        if let auditFailure {
            blocks = isBlocking
            reasons.append("the audit log cannot be written, so \(effect): \(auditFailure)")
        } else if room.shortage(for: .token) != nil {
            blocks = isBlocking
            reasons.append("the audit log is full, so \(effect): \(room.explanation(of: .limit))")
        } else if let shortage = room.shortage(for: .traffic) {
            let what = "failed requests, denials and uses are no longer recorded"
            reasons.append("the audit log is almost full, so \(what): \(room.explanation(of: shortage))")
        }
        if let auditDamage { reasons.append(auditDamage) }
        if let unshipped, let failure = unshipped.failure {
            blocks = blocks || unshipped.isRequired && isBlocking
            reasons.append(unshipped.sentence(failure, effect: effect))
        }
        if unrecorded > 0 {
            let events = unrecorded == 1 ? "1 operator event has" : "\(unrecorded) operator events have"
            reasons.append("\(events) not reached the audit log yet")
        }
        if let auditBreach {
            reasons.append("the audit log is broken: \(auditBreach) (see authgateway audit verify)")
        }
        if let auditLoss {
            let rows = auditLoss.lostTo > 0 ? "rows up to \(auditLoss.lostTo) are lost" : "what it held is lost"
            reasons.append("the audit log was missing and was created again at \(auditLoss.at.rfc3339): \(rows)")
        }
        if let missingKey {
            let what = "Without it, the gateway starts only with new, empty databases, after you move the old ones away"
            reasons.append("the installation key \(missingKey) is gone; put it back. \(what)")
        }
        if let tokenFailure {
            blocks = blocks || !rotating.isEmpty
            let effect = rotating.isEmpty ? "" : ", so \(rotating.joined(separator: ", ")) cannot be renewed"
            reasons.append("the token store cannot be written\(effect): \(tokenFailure)")
        }
        return (reasons, blocks)
    }
}
