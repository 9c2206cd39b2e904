package import GatewayCore

/// Keeps nothing: for tokens that live for minutes and that anybody who needs one asks for again.
package struct NoTokenStore: TokenStore {
    package init() {}

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> StoredToken? { nil }
    package func save(_ token: StoredToken, for key: CredentialKey) async throws(TokenStoreError) {}
    package func remove(_ key: CredentialKey) async throws(TokenStoreError) {}
}
