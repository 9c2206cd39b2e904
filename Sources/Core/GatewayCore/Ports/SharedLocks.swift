/// The names of locked credentials, kept beside the tokens of a store that gateways share.
///
/// Each gateway keeps a copy, so that a lock holds without the store.
package protocol SharedLocks: Sendable {
    /// Adds and removes names in one step. With neither it reads them.
    ///
    /// - Returns: All names that are locked from now on.
    func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> Set<String>
}
