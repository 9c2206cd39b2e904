package import Crypto
import Foundation
package import GatewayHTTP
package import GatewayTokens
import Synchronization

/// Keeps tokens with a program that speaks the protocol of docker's credential helpers: `store`, `get` and `erase` with
/// JSON on standard input and output.
///
/// What the program is given is encrypted with the installation's key, so that it may keep it anywhere. One call at a
/// time; a write that was begun is finished even when the task that asked for it is cancelled.
///
/// The program compares nothing: revisions and leases are those of this process, so ``isShared`` is false.
package final class CommandTokenStore: TokenStore {
    /// The line that helpers print, with a status other than 0, for what they do not have.
    private static let notFound = "credentials not found"
    private static let user = "authgateway"

    private let program: TokenProgram
    private let runner: any ProgramRunner
    private let sealer: TokenSealer
    private let last = Mutex<Task<Void, Never>?>(nil)
    /// What this process knows of each record.
    private let states = Mutex<[CredentialKey: TokenRecordState]>([:])
    private let now = MemoryTokenStore.uptime()

    /// - Parameters:
    ///   - program: `store`, `get` or `erase` is added as its last argument.
    ///   - key: ``InstallationKey/derived(for:)`` of `tokenStore`.
    package init(program: TokenProgram, runner: any ProgramRunner, key: SymmetricKey) {
        self.program = program
        self.runner = runner
        sealer = TokenSealer(key: key)
    }

    private var name: String { program.command.first ?? "the token store's program" }

    private func read(_ key: CredentialKey) async throws(TokenStoreError) -> StoredToken? {
        let output: [UInt8]
        switch await run("get", Self.address(of: key)) {
        case .success(let bytes): output = bytes
        case .failure(let failure):
            if isNotFound(failure) { return nil }
            throw unavailable("get", failure)
        }
        guard let entry = try? JSONDecoder().decode(Entry.self, from: Data(output)),
            let sealed = try? JSONDecoder().decode(SealedEntry.self, from: Data(entry.secret.utf8)),
            let token = sealer.open(sealed.row(of: key))
        else { throw damaged }
        return token
    }

    private func write(_ token: StoredToken, for key: CredentialKey) async throws(TokenStoreError) {
        let text: String
        do {
            let row = try sealer.seal(token, for: key, at: SQLiteTokenStore.wallClock())
            let encoder = JSONEncoder()
            // Helpers that are shell scripts take it apart with sed.
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            let secret = String(decoding: try encoder.encode(SealedEntry(row)), as: UTF8.self)
            let entry = Entry(address: Self.address(of: key), user: Self.user, secret: secret)
            text = String(decoding: try encoder.encode(entry), as: UTF8.self)
        } catch {
            throw .unavailable("a token could not be encrypted for \(name)")
        }
        if case .failure(let failure) = await run("store", text) { throw unavailable("store", failure) }
    }

    private func erase(_ key: CredentialKey) async throws(TokenStoreError) {
        guard case .failure(let failure) = await run("erase", Self.address(of: key)), !isNotFound(failure) else {
            return
        }
        throw unavailable("erase", failure)
    }

    /// What the program knows a token by.
    private static func address(of key: CredentialKey) -> String { "authgateway://\(key.digest)" }

    private func isNotFound(_ failure: ProgramFailure) -> Bool {
        failure.reason == .failed && failure.output.withValue { $0.contains(Self.notFound) }
    }

    private func unavailable(_ action: String, _ failure: ProgramFailure) -> TokenStoreError {
        .unavailable("\(name) \(action) \(failure.message)")
    }

    private var damaged: TokenStoreError {
        .damaged(
            "what \(name) get prints is not what was stored with this installation key; restore the key or the entry, or "
                + "run `authgateway token clear NAME` to forget that token (for an entry that does not exist, a helper "
                + "prints \"\(Self.notFound) in native keychain\" and exits with status 1)"
        )
    }

    /// In turn: helpers that keep one file would lose writes.
    private func run(_ action: String, _ input: String) async -> Result<[UInt8], ProgramFailure> {
        var program = program
        program.command.append(action)
        let task = last.withLock { [program, runner] last in
            let previous = last
            let task = Task {
                await previous?.value
                return await runner.run(program, input: Secret(input + "\n"), deadline: program.timeout)
            }
            last = Task { _ = await task.value }
            return task
        }
        return await task.value
    }

    private struct Entry: Codable {
        let address: String
        let user: String
        let secret: String

        enum CodingKeys: String, CodingKey {
            case address = "ServerURL"
            case user = "Username"
            case secret = "Secret"
        }
    }
}

/// A ``SealedToken`` as text.
private struct SealedEntry: Codable {
    let version: Int
    let generation: Int
    let updatedAt: String
    let nonce: Data
    let ciphertext: Data

    init(_ row: SealedToken) {
        version = row.version
        generation = row.generation
        updatedAt = row.updatedAt
        nonce = row.nonce
        ciphertext = row.ciphertext
    }

    func row(of key: CredentialKey) -> SealedToken {
        SealedToken(
            key: key.digest,
            generation: generation,
            updatedAt: updatedAt,
            version: version,
            nonce: nonce,
            ciphertext: ciphertext
        )
    }
}

// MARK: - Records

/// Revisions and leases, which the program knows nothing of.
extension CommandTokenStore {
    package var isShared: Bool { false }

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry {
        let before = revision(of: key)
        let token = try await read(key)
        // A write meanwhile has made what was read uncertain. A writer that expects the earlier revision is refused.
        return TokenEntry(token: token, revision: before)
    }

    package func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await saved(key, token) { $0.write(expecting: revision, at: $1) }
    }

    @discardableResult
    package func replace(
        _ token: StoredToken?,
        for key: CredentialKey
    ) async throws(TokenStoreError) -> TokenRevision {
        guard case .saved(let revision) = try await saved(key, token, { state, _ in .allowed(state.replace()) }) else {
            return .none
        }
        return revision
    }

    package func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(key, token) { $0.lease(expecting: revision, for: time, at: $1) }
    }

    package func prolong(
        _ lease: TokenLease,
        for time: Duration
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(lease.key, nil) { $0.prolong(lease, for: time, at: $1) }
    }

    package func save(
        _ token: StoredToken,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(lease.key, token) { state, _ in state.write(under: lease) }
    }

    package func commit(
        _ token: StoredToken?,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await saved(lease.key, token) { state, _ in state.commit(under: lease) }
    }

    package func release(_ lease: TokenLease) async throws(TokenStoreError) {
        states.withLock { $0[lease.key]?.release(lease) }
    }

    /// Names what this process has written or leased.
    package func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        guard mark != nil else { return TokenChanges(mark: TokenStoreMark(0)) }
        return TokenChanges(revisions: states.withLock { $0.mapValues(\.revision) }, mark: TokenStoreMark(0))
    }

    private func revision(of key: CredentialKey) -> TokenRevision { states.withLock { $0[key]?.revision ?? .none } }

    private typealias Decide = (inout TokenRecordState, UnixTime) -> RecordDecision

    private func decide(_ key: CredentialKey, _ decide: Decide) -> RecordDecision {
        let now = now()
        return states.withLock { states in
            var state = states[key] ?? TokenRecordState()
            let decision = decide(&state, now)
            if case .allowed = decision { states[key] = state }
            return decision
        }
    }

    /// - Parameter token: nil removes the record.
    private func saved(
        _ key: CredentialKey,
        _ token: StoredToken?,
        _ body: Decide
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        let earlier = states.withLock { $0[key] }
        switch decide(key, body) {
        case .held(let time): return .held(for: time)
        case .changed: return .changed(try await load(key))
        case .allowed(let revision):
            try await undoing(revision, of: key, back: earlier) { () throws(TokenStoreError) in
                if let token { try await write(token, for: key) } else { try await erase(key) }
            }
            return .saved(revision)
        }
    }

    /// - Parameter token: nil leaves the record as it is.
    private func leased(
        _ key: CredentialKey,
        _ token: StoredToken?,
        _ body: Decide
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        let earlier = states.withLock { $0[key] }
        switch decide(key, body) {
        case .held(let time): return .held(for: time)
        case .changed: return .changed(try await load(key))
        case .allowed(let revision):
            if let token {
                try await undoing(revision, of: key, back: earlier) { () throws(TokenStoreError) in
                    try await write(token, for: key)
                }
            }
            return .granted(TokenLease(key: key, revision: revision))
        }
    }

    /// What the program did not write has not happened, so the writer may try again with the revision that it knows.
    private func undoing(
        _ revision: TokenRevision,
        of key: CredentialKey,
        back earlier: TokenRecordState?,
        _ body: () async throws(TokenStoreError) -> Void
    ) async throws(TokenStoreError) {
        do throws(TokenStoreError) {
            try await body()
        } catch {
            states.withLock { states in
                if states[key]?.revision == revision { states[key] = earlier }
            }
            throw error
        }
    }
}
