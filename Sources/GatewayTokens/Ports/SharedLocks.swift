/// The names of locked credentials, kept beside the tokens of a store that gateways share.
///
/// Each gateway keeps a copy, so that a lock holds without the store.
package protocol SharedLocks: Sendable {
    /// Adds and removes names in one step. With neither it reads them.
    func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> SharedLockNames
}

package struct SharedLockNames: Hashable, Sendable {
    /// All names that are locked from now on.
    package var names: Set<String>
    /// What these names reach up to; nil where the store does not tell.
    package var upTo: FleetMark?
    /// Names that the store did not take, since somebody else holds their records. They are told again.
    package var held: Set<String> = []
    /// Why the store did not take them.
    package var reason: String?

    package init(_ names: Set<String>, upTo: FleetMark? = nil) {
        self.names = names
        self.upTo = upTo
    }
}
