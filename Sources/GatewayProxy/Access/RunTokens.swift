package import GatewayFiles
package import GatewayHTTP
import Synchronization

/// The tokens of programs that `authgateway exec` runs. SDKs send them where they would send their API key.
///
/// A token stands for one of the client's own tokens, so it is worth nothing once the configuration no longer has that one. It ends
/// with its program, and proves a client on loopback only. Kept over reloads, in memory only.
package final class RunTokens: Sendable {
    private struct Run {
        /// The SHA-256 of the token.
        let digest: [UInt8]
        /// The SHA-256 of the client's token that it stands for; nil where it proves no client.
        let original: [UInt8]?
        /// nil for one that ends with the gateway.
        let process: ProcessMark?
    }

    /// A token that is known.
    struct Found: Hashable {
        /// The SHA-256 of the client's token that it stands for; nil where it proves no client.
        let original: [UInt8]?
    }

    /// Each digest is compared for a request that presents such a token.
    static let limit = 1024
    /// Of each token of a client, and of those that prove no client.
    static let limitPerClient = 64
    /// In lower-case hexadecimal digits.
    static let length = 64
    /// What an SDK wants to see before the token, such as `sk-`.
    package static let longestPrefix = 32

    private let runs = Mutex<[Run]>([])
    private let hasRuns = Atomic<Bool>(false)

    init() {}

    /// Whether a request may present such a token. Requests pay for no more than this where `exec` runs nothing.
    var isInUse: Bool { hasRuns.load(ordering: .relaxed) }

    /// Makes a token.
    ///
    /// - Parameters:
    ///   - original: The SHA-256 of a client's own token; nil where the program proves no client.
    ///   - process: The program; nil for one that ends with the gateway.
    /// - Returns: nil where too many programs run.
    package func begin(
        for original: [UInt8]?,
        process: ProcessMark?,
        sha256: ([UInt8]) -> [UInt8]
    ) -> Secret? {
        let token = Hexadecimal.random(bytes: Self.length / 2)
        let run = Run(digest: sha256(Array(token.utf8)), original: original, process: process)
        let isTaken = runs.withLock { runs in
            guard runs.count < Self.limit, runs.count(where: { $0.original == original }) < Self.limitPerClient else {
                return false
            }
            runs.append(run)
            hasRuns.store(true, ordering: .relaxed)
            return true
        }
        return isTaken ? Secret(token) : nil
    }

    /// Ends the tokens of programs that are gone.
    ///
    /// - Parameter isAlive: Costs a system call, so it is asked without the lock.
    package func end(unless isAlive: (ProcessMark) -> Bool) {
        guard isInUse else { return }
        let gone = Set(runs.withLock { $0.compactMap(\.process) }.filter { !isAlive($0) })
        guard !gone.isEmpty else { return }
        runs.withLock { runs in
            runs.removeAll { $0.process.map(gone.contains) ?? false }
            hasRuns.store(!runs.isEmpty, ordering: .relaxed)
        }
    }

    /// Digests are compared, all of them and to their ends, so the time tells nothing about how near a guess was.
    ///
    /// - Parameter value: The token, with or without what an SDK wants to see before it.
    func find(_ value: [UInt8], sha256: ([UInt8]) -> [UInt8]) -> Found? {
        guard value.count >= Self.length, value.count <= Self.length + Self.longestPrefix else { return nil }
        let token = Array(value.suffix(Self.length))
        guard token.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }) else { return nil }
        let digest = sha256(token)
        return runs.withLock { runs in
            var found: Found?
            for run in runs where run.digest.span.isSame(as: digest.span) { found = Found(original: run.original) }
            return found
        }
    }
}
