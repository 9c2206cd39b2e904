/// Where tokens outlive the process. One whole record per key; `save` returns once it would survive a crash.
package protocol TokenStore: Sendable {
    /// - Returns: nil only when nothing was ever saved, or it was removed. Damage is an error, never an empty store.
    func load(_ key: CredentialKey) async throws(TokenStoreError) -> StoredToken?

    func save(_ token: StoredToken, for key: CredentialKey) async throws(TokenStoreError)

    func remove(_ key: CredentialKey) async throws(TokenStoreError)
}

package enum TokenStoreError: Error, Hashable, Sendable {
    /// The store cannot be reached or written now: full disk, lock, I/O error.
    case unavailable(String)
    /// The record is there and cannot be read: wrong key, or changed behind our back. The text says what to do.
    case damaged(String)

    package var reason: String {
        switch self {
        case .unavailable(let reason), .damaged(let reason): reason
        }
    }
}
