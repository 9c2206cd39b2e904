/// Why a file, a key or a directory of the gateway's state, or the local authority in it, cannot be used; says what to do, and
/// holds no secret.
package struct StateError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}
