package import GatewayCore
import GatewayFiles
import Synchronization

extension PostgreSQLTokenStore {
    /// Encrypts every row with the first key: `authgateway store encrypt`. Gateways that have both keys go on meanwhile.
    ///
    /// It can be begun again after a crash at any instant: the database says which key is written with, and a row opens with either.
    ///
    /// - Returns: How many rows were encrypted anew.
    package func encrypt() async throws(TokenStoreError) -> Int {
        try await ensureReady()
        let next = sealers[0]
        let present = sealers[state.withLock { $0.sealer }]
        if present.keyCheck != next.keyCheck {
            _ = try await ask(
                PostgreSQLStatement(
                    "UPDATE authgateway.store SET value = $1::text WHERE name = 'key_check' AND value = $2::text",
                    [.text(next.keyCheck), .text(present.keyCheck)],
                    isRepeatable: true
                )
            )
        }
        var total = 0
        // A write that began before the change may end after a row was looked at: until nothing is left to do.
        while true {
            let count = try await encryptOnce(with: next)
            total += count
            guard count > 0 else { return total }
        }
    }

    private func encryptOnce(with next: TokenSealer) async throws(TokenStoreError) -> Int {
        let list = PostgreSQLStatement(
            "SELECT key FROM authgateway.token WHERE version <> \(SealedToken.removedVersion)",
            isRepeatable: true
        )
        var count = 0
        for found in try await run(list) {
            guard let name = found.text(0) else { continue }
            let key = CredentialKey(digest: name)
            guard let sealed = try await row(of: key).sealed, !sealed.isRemoved, next.plaintext(of: sealed) == nil
            else {
                continue
            }
            guard let renewed = sealers.lazy.compactMap({ next.sealAgain(sealed, openedBy: $0) }).first else {
                throw .damaged(
                    "a row of \(self.name) opens with none of the keys; `authgateway token list` names the credential, and "
                        + "`authgateway token clear NAME` forgets its token"
                )
            }
            let update = PostgreSQLStatement(
                "UPDATE authgateway.token SET nonce = $1::bytea, ciphertext = $2::bytea WHERE key = $3::text AND nonce = $4::bytea",
                [
                    .bytes(Array(renewed.nonce)), .bytes(Array(renewed.ciphertext)), .text(name),
                    .bytes(Array(sealed.nonce)),
                ],
                isRepeatable: true
            )
            _ = try await ask(update)
            count += 1
        }
        return count
    }
}
