/// Where token events are written.
package protocol AuditLog: Sendable {
    /// Returns once the event is committed and would survive a crash.
    func record(_ event: TokenEvent) async throws(AuditError)

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
}
