import Foundation
package import GatewayCore
import GatewayFiles
import Synchronization

extension PostgreSQLTokenStore {
    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry {
        let row = try await loads.load(key, within: limit) { [self] keys async throws(TokenStoreError) in
            try await rows(of: keys)
        }
        return try entry(of: row)
    }

    package func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await saved(key, .token(token), .free(revision))
    }

    @discardableResult
    package func replace(
        _ token: StoredToken?,
        for key: CredentialKey
    ) async throws(TokenStoreError) -> TokenRevision {
        let answer = try await saved(key, token.map { .token($0) } ?? .nothing, .always)
        guard case .saved(let revision) = answer else {
            throw .unavailable(
                "a record of \(name) was not replaced, since others change it at the same time; try again"
            )
        }
        return revision
    }

    package func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(key, token.map { .token($0) } ?? .same, .free(revision), .taken(time))
    }

    package func prolong(_ lease: TokenLease, for time: Duration) async throws(TokenStoreError) -> TokenLeaseAnswer {
        guard try await write(TokenStatement.prolong(lease, for: time)).isEmpty else { return .granted(lease) }
        return .changed(try await load(lease.key))
    }

    package func save(_ token: StoredToken, under lease: TokenLease) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(lease.key, .token(token), .leased(lease.revision), .kept)
    }

    package func commit(_ token: StoredToken?, under lease: TokenLease) async throws(TokenStoreError) -> TokenSaveAnswer
    {
        try await saved(lease.key, token.map { .token($0) } ?? .nothing, .leased(lease.revision))
    }

    package func release(_ lease: TokenLease) async throws(TokenStoreError) {
        _ = try await write(TokenStatement.release(lease, by: feed.sender))
    }

    // MARK: One record

    private enum Content {
        case token(StoredToken)
        case nothing
        /// What it was.
        case same
    }

    private func saved(
        _ key: CredentialKey,
        _ content: Content,
        _ condition: TokenStatement.Condition
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        let (decision, row) = try await change(key, content, condition, .ended)
        return try TokenSaveAnswer(decision) { () throws(TokenStoreError) in try entry(of: row) }
    }

    private func leased(
        _ key: CredentialKey,
        _ content: Content,
        _ condition: TokenStatement.Condition,
        _ lease: TokenStatement.Lease
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        let (decision, row) = try await change(key, content, condition, lease)
        return try TokenLeaseAnswer(decision, of: key) { () throws(TokenStoreError) in try entry(of: row) }
    }

    /// A second round where the lease that was in the way has just ended, or the database has got another key.
    private static let rounds = 3

    private func change(
        _ key: CredentialKey,
        _ content: Content,
        _ condition: TokenStatement.Condition,
        _ lease: TokenStatement.Lease
    ) async throws(TokenStoreError) -> (decision: RecordDecision, row: StoredRow) {
        let id = Hexadecimal.text(of: (0..<12).map { _ in UInt8.random(in: .min ... .max) })
        var round = 0
        while true {
            round += 1
            let sealer = sealers[state.withLock { $0.sealer }]
            let statement = TokenStatement(
                key: key,
                id: id,
                sender: feed.sender,
                keyCheck: sealer.keyCheck,
                condition: condition,
                lease: lease,
                content: try sealed(content, for: key, by: sealer)
            )
            if let revision = try await write(statement.statement).first?.integer(0) {
                return (.allowed(TokenRevision(revision)), .missing)
            }
            let row = try await row(of: key)
            // Its answer was lost, and it was sent again.
            if row.change == id, let revision = row.revision { return (.allowed(revision), row) }
            switch condition {
            case .free(let known):
                if let time = row.leaseTime { return (.held(for: time), row) }
                if row.revision == known, round < Self.rounds { continue }
            case .leased(let known): if row.revision == known, round < Self.rounds { continue }
            case .always: if round < Self.rounds { continue }
            }
            return (.changed, row)
        }
    }

    private func sealed(
        _ content: Content,
        for key: CredentialKey,
        by sealer: TokenSealer
    ) throws(TokenStoreError) -> SealedToken? {
        // The gateway's clock, for people; nothing is compared with it.
        let now = UnixTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
        switch content {
        case .same: return nil
        case .nothing: return .removed(key, at: now)
        case .token(let token):
            guard let sealed = try? sealer.seal(token, for: key, at: now) else {
                throw .unavailable("a token could not be encrypted for \(name)")
            }
            return sealed
        }
    }

    // MARK: Reading

    func row(of key: CredentialKey) async throws(TokenStoreError) -> StoredRow {
        guard let row = try await rows(of: [key])[key] else { throw missingKey }
        return row
    }

    /// - Returns: One for each key.
    private func rows(of keys: [CredentialKey]) async throws(TokenStoreError) -> [CredentialKey: StoredRow] {
        let found = try await run(TokenStatement.load(keys))
        guard let check = found.first?.text(0) else { throw missingKey }
        try use(check)
        let missing = Dictionary(keys.map { ($0, StoredRow.missing) }) { first, _ in first }
        let present = found.compactMap { row in
            row.text(9).map { CredentialKey(digest: $0) }.map { ($0, StoredRow(row, of: $0)) }
        }
        return missing.merging(present) { $1 }
    }

    private func entry(of row: StoredRow) throws(TokenStoreError) -> TokenEntry {
        guard let revision = row.revision else { return .nothing }
        guard let sealed = row.sealed else { throw damagedRow }
        guard !sealed.isRemoved else { return TokenEntry(token: nil, revision: revision) }
        guard sealed.version == TokenRecord.version else {
            throw .damaged(
                "a row of \(name) has format \(sealed.version) and this program knows \(TokenRecord.version); run the newer "
                    + "program on all gateways, or run `authgateway token clear NAME`"
            )
        }
        // While the key is being replaced, rows of both are there.
        guard let token = sealers.lazy.compactMap({ $0.open(sealed) }).first else { throw damagedRow }
        return TokenEntry(token: token, revision: revision)
    }

    private var damagedRow: TokenStoreError {
        .damaged(
            "a row of \(name) was changed after it was written; run `authgateway token clear NAME` to forget that token, or "
                + "restore the database from a backup"
        )
    }
}
