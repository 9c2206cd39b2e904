package import GatewayCore
import Synchronization

/// Keeps tokens for the life of the process. A restart asks the authorities again.
package final class MemoryTokenStore: TokenStore {
    private let tokens = Mutex<[CredentialKey: StoredToken]>([:])

    package init() {}

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> StoredToken? {
        tokens.withLock { $0[key] }
    }

    package func save(_ token: StoredToken, for key: CredentialKey) async throws(TokenStoreError) {
        tokens.withLock { $0[key] = token }
    }

    package func remove(_ key: CredentialKey) async throws(TokenStoreError) {
        tokens.withLock { _ = $0.removeValue(forKey: key) }
    }
}
