package import Crypto
import Foundation
package import GatewayCore
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
    let states = Mutex<[CredentialKey: TokenRecordState]>([:])
    let now = MemoryTokenStore.uptime()

    /// - Parameters:
    ///   - program: `store`, `get` or `erase` is added as its last argument.
    ///   - key: ``InstallationKey/derived(for:)`` of `tokenStore`.
    package init(program: TokenProgram, runner: any ProgramRunner, key: SymmetricKey) {
        self.program = program
        self.runner = runner
        sealer = TokenSealer(key: key)
    }

    private var name: String { program.command.first ?? "the token store's program" }

    func read(_ key: CredentialKey) async throws(TokenStoreError) -> StoredToken? {
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

    func write(_ token: StoredToken, for key: CredentialKey) async throws(TokenStoreError) {
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

    func erase(_ key: CredentialKey) async throws(TokenStoreError) {
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
                + "run `authgateway token clear NAME` to forget that token (for an entry that does not exist a helper "
                + "prints \"\(Self.notFound) in native keychain\" and ends with status 1)"
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
