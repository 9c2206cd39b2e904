/// Why a file, a key or a directory of the gateway's state, or the local CA in it, cannot be used; says what to do, and
/// holds no secret.
package struct StateError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

extension StateError {
    /// Does something with a file. A failure ends the sentence that `attempt` begins: `cannot write state/locks: disk full`.
    package static func explaining<Value>(
        _ attempt: @autoclosure () -> String,
        _ work: @autoclosure () throws(PrivateFile.Failure) -> Value
    ) throws(StateError) -> Value {
        do throws(PrivateFile.Failure) {
            return try work()
        } catch {
            throw StateError("\(attempt()): \(error.reason)")
        }
    }
}
