/// Where token events are written.
package protocol AuditLog: Sendable {
    /// Returns once the event is committed and would survive a crash. Waits for a limited time.
    ///
    /// - Throws: Why the event is not recorded. It is not recorded later either, unless its commit was under way by then.
    func record(_ event: TokenEvent) async throws(AuditError)

    /// Records what has been done and cannot be undone. What cannot be written now is kept in memory, and written as soon as
    /// the log works again.
    ///
    /// - Returns: nil once the event is committed; otherwise why it is not recorded yet.
    func recordSoon(_ event: TokenEvent) async -> AuditError?

    /// Counts a use. Never blocks; drops and counts the drop when its queue is full.
    func count(_ use: TokenUse)

    /// Takes what is to be written of single requests. Never blocks.
    ///
    /// - Returns: How many it had no place for.
    func keep(_ requests: [RequestUse]) -> Int
}

package struct AuditError: Error, Hashable, Sendable {
    package let reason: String
    package init(_ reason: String) { self.reason = reason }

    /// For an operator who took a right away, which holds already.
    package var lateRecord: String {
        "That is not recorded yet: \(reason). It is as soon as the audit log can be written."
    }
}
