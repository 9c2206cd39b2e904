import GatewayCore
import GatewayTokenStores

/// Reads what a token store keeps for a credential. Nothing is written, and nothing is sent to an authority.
struct StoredTokenReader: Sendable {
    private let key: InstallationKey
    private let load: @Sendable (CredentialKey) async throws(TokenStoreError) -> StoredToken?
    /// The program that keeps the tokens; nil for a file.
    let program: TokenProgram?

    init(_ reader: SQLiteTokenReader, key: InstallationKey) {
        self.key = key
        program = nil
        load = { (name) throws(TokenStoreError) in try reader.load(name) }
    }

    init(_ store: PostgreSQLTokenStore, key: InstallationKey) {
        self.key = key
        program = nil
        load = { (name) throws(TokenStoreError) in try await store.load(name).token }
    }

    /// - Returns: nil without a program.
    init?(program: TokenProgram?, key: InstallationKey) {
        guard let program else { return nil }
        self.key = key
        self.program = program
        let subkey = key.derived(for: .tokenStore)
        let store = CommandTokenStore(program: program, runner: SystemProgramRunner(), key: subkey)
        load = { (name) throws(TokenStoreError) in try await store.load(name).token }
    }

    func stored(_ grant: any TokenGrant) async -> CredentialRule.Stored {
        do throws(TokenStoreError) {
            return try await load(key.credentialKey(for: grant.identity)).map { Self.facts(of: $0, grant) }
                ?? .nothing
        } catch {
            return .unreadable(error.reason)
        }
    }

    private static func facts(of stored: StoredToken, _ grant: any TokenGrant) -> CredentialRule.Stored {
        if stored.isRevoked { return .revoked }
        if stored.knownRefusal != nil { return .refused }
        if stored.isRestored, !grant.canAcquireAnew,
            stored.isRefreshTokenUncertain(rotates: grant.rotatesRefreshToken)
        {
            return .restored
        }
        if stored.attempt != nil { return .rotationUncertain }
        return .token(
            end: stored.isRejected ? stored.token.obtainedAt : stored.token.expiresAt,
            renewalEnd: stored.token.refreshTokenExpiresAt,
            hasRefreshToken: stored.token.refreshToken != nil
        )
    }
}
