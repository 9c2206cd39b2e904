import Foundation
import GatewayFiles
import GatewayHTTP
package import GatewayTokens
package import Logging
import Synchronization

/// The phantoms of captured logins, as digests; outlives the gateway.
///
/// A revocation takes effect immediately, even if the disk fails. A new login is written before the client gets its phantom, unless the
/// disk takes longer than 3 s.
package final class CaptureStore: Sendable {
    private static let writeLimit: Duration = .seconds(3)
    /// Those of a large configuration have room.
    private static let limit = 16 << 20

    private let path: String
    private let logger: Logger
    private let logins: Mutex<CapturedLogins>
    /// Held while the file is written, so that no older state replaces a newer one.
    private let writing = Mutex(())

    package static func path(in stateDirectory: String) -> String { "\(stateDirectory)/captures.json" }

    /// What cannot be read holds no phantoms: their clients log in again.
    package init(in stateDirectory: String, logger: Logger) {
        path = Self.path(in: stateDirectory)
        self.logger = logger
        var found = CapturedLogins()
        do throws(BoundedFile.Failure) {
            let bytes = try BoundedFile.read(path, limit: Self.limit).bytes
            if let stored = StoredCaptures(bytes) {
                found = stored.logins
            } else {
                Self.warn(path, "it is damaged", logger)
            }
        } catch {
            if error != .missing { Self.warn(path, "\(error)", logger) }
        }
        logins = Mutex(found)
    }

    private static func warn(_ path: String, _ reason: String, _ logger: Logger) {
        logger.warning(
            "Captured logins cannot be read; clients have to log in again",
            metadata: ["gateway.path": "\(path)", "gateway.reason": "\(reason)"]
        )
    }

    func read<Answer: Sendable, Failure: Error>(
        _ body: (CapturedLogins) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        try logins.withLock { logins throws(Failure) in try body(logins) }
    }

    func changeInMemory<Answer: Sendable, Failure: Error>(
        _ body: (inout CapturedLogins) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        try logins.withLock { logins throws(Failure) in try body(&logins) }
    }

    /// Changes what is written, and waits for the disk.
    ///
    /// - Parameter isEnd: The change ends logins, which the file must not bring back.
    func change<Answer: Sendable>(isEnd: Bool = false, _ body: (inout CapturedLogins) -> Answer) async -> Answer {
        let (answer, hasChanged) = logins.withLock { logins in
            let before = logins.captures
            let answer = body(&logins)
            return (answer, logins.captures != before)
        }
        if hasChanged { await store(isEnd: isEnd) }
        return answer
    }

    /// An operator has taken the tokens of these credentials away.
    ///
    /// - Returns: The credentials that had phantoms.
    @discardableResult
    package func end(_ keys: [CredentialKey]) async -> [CredentialKey] {
        await change(isEnd: true) { logins in keys.filter { logins.end($0) } }
    }

    /// Forgets the logins of credentials that the configuration no longer captures.
    func prune(keeping keys: Set<CredentialKey>) async { await change(isEnd: true) { $0.keepOnly(keys) } }

    private func store(isEnd: Bool) async {
        let result = await OwnThread.run(within: Self.writeLimit) { _ in
            self.writing.withLock { _ in
                let text = StoredCaptures(self.logins.withLock { $0 }).text
                let written = Result { () throws(StateError) in try StateFile.write(text, to: self.path) }
                // A full disk has no room for a new file, but the old one can be removed.
                if isEnd, case .failure = written { _ = PrivateFile.remove(self.path) }
                return written
            }
        }
        let reason: String
        switch result {
        case .success(.success): return
        case .success(.failure(let error)): reason = error.description
        case .failure(let failure): reason = "\(failure)"
        }
        logger.warning(
            "Cannot save captured logins; if the gateway restarts before they are saved, clients must log in again",
            metadata: ["gateway.path": "\(path)", "gateway.reason": "\(reason)"]
        )
    }
}

/// What `captures.json` holds, by the key of the credential in the token store. All of it are digests, apart from the names of clients.
private struct StoredCaptures: Codable {
    struct Capture: Codable {
        let account: String?
        let logins: [Login]
    }

    struct Login: Codable {
        let client: String?
        let refresh: String
        let access: String
    }

    private static let digestLength = 32

    let captures: [String: Capture]

    init(_ logins: CapturedLogins) {
        captures = Dictionary(
            uniqueKeysWithValues: logins.captures.map { key, capture in
                let stored = capture.logins.map { login in
                    Login(
                        client: login.client,
                        refresh: Hexadecimal.text(of: login.digests.refresh),
                        access: Hexadecimal.text(of: login.digests.access)
                    )
                }
                return (key.digest, Capture(account: capture.account.map { Hexadecimal.text(of: $0) }, logins: stored))
            }
        )
    }

    /// nil where it is damaged.
    init?(_ bytes: [UInt8]) {
        guard let read = try? JSONDecoder().decode(Self.self, from: Data(bytes)) else { return nil }
        let texts = read.captures.values.flatMap { capture in
            capture.logins.flatMap { [$0.refresh, $0.access] } + [capture.account].compactMap(\.self)
        }
        guard texts.allSatisfy({ Hexadecimal.bytes(of: $0)?.count == Self.digestLength }) else { return nil }
        self = read
    }

    var logins: CapturedLogins {
        CapturedLogins(
            Dictionary(
                uniqueKeysWithValues: captures.map { key, capture in
                    let logins = capture.logins.suffix(CapturedLogins.maximum).map { login in
                        CapturedLogins.Login(
                            client: login.client,
                            digests: Phantom.Digests(
                                refresh: Hexadecimal.bytes(of: login.refresh) ?? [],
                                access: Hexadecimal.bytes(of: login.access) ?? []
                            )
                        )
                    }
                    let account = capture.account.flatMap { Hexadecimal.bytes(of: $0) }
                    return (
                        CredentialKey(digest: key), CapturedLogins.Capture(account: account, logins: logins)
                    )
                }
            )
        )
    }

    var text: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        // Strings alone, which can always be encoded.
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) + "\n" } ?? "{\"captures\":{}}\n"
    }
}
