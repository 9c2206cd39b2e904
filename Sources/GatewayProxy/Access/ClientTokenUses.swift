package import GatewayHTTP
import Synchronization

/// When each token of each client was last used: whether an old one can be removed.
///
/// Kept over reloads, in memory only.
package final class ClientTokenUses: Sendable {
    /// Whether one token was used. Requests mark it, and a reader removes the mark.
    package final class Mark: Sendable {
        private let isUsed = Atomic<Bool>(false)

        /// All workers read the same place, and write it once between two looks.
        func note() {
            if !isUsed.load(ordering: .relaxed) { isUsed.store(true, ordering: .relaxed) }
        }

        fileprivate func take() -> Bool {
            isUsed.load(ordering: .relaxed) && isUsed.exchange(false, ordering: .relaxed)
        }
    }

    private struct Key: Hashable {
        var client: String
        var digest: [UInt8]
    }

    private struct Entry {
        let mark = Mark()
        var lastUse: UnixTime?
    }

    private let entries = Mutex<[Key: Entry]>([:])
    /// The tokens of programs, each of which stands for one of these.
    package let runs = RunTokens()
    /// How many marks are kept of tokens that the configuration no longer names: a reload that fails has named others.
    static let spare = 64

    package init() {}

    /// The marks of the tokens of these clients. Tokens that were known before keep their last use.
    func marks(of clients: [(name: String, digests: [[UInt8]])]) -> [[Mark]] {
        entries.withLock { entries in
            let count = clients.reduce(0) { $0 + $1.digests.count }
            if entries.count > 2 * count + Self.spare {
                let known = Set(
                    clients.flatMap { client in client.digests.map { Key(client: client.name, digest: $0) } }
                )
                entries = entries.filter { known.contains($0.key) }
            }
            return clients.map { client in
                client.digests.map { digest in
                    let key = Key(client: client.name, digest: digest)
                    let entry = entries[key] ?? Entry()
                    entries[key] = entry
                    return entry.mark
                }
            }
        }
    }

    /// Notes that the marked tokens were used now. A look every few seconds makes that accurate enough.
    package func look(at now: UnixTime) {
        entries.withLock { entries in
            for (key, entry) in entries where entry.mark.take() { entries[key]?.lastUse = now }
        }
    }

    /// When each token was last used, in the order of the configuration.
    package func report(
        on clients: [AccessPlan.Client],
        at now: UnixTime,
        sha256: ([UInt8]) -> [UInt8]
    ) -> [ClientTokenStatus] {
        look(at: now)
        let found = clients.map { client in client.tokens.map { Key(client: client.name, digest: $0.digest(sha256)) } }
        return entries.withLock { entries in
            found.flatMap { keys in
                keys.enumerated().map { index, key in
                    let last = entries[key]?.lastUse
                    return ClientTokenStatus(client: key.client, number: index + 1, lastUsedAt: last?.rfc3339)
                }
            }
        }
    }
}
