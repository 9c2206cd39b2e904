import GatewayConfiguration
package import GatewayFiles
package import GatewayHTTP
import Synchronization

/// The tokens of programs that `authgateway exec` runs. SDKs send them where they would send their API key.
///
/// Each stands for one of a client's own tokens, and is worthless once that token is no longer configured. It proves the client only on
/// loopback, and only until its program exits. Tokens are kept in memory, also across reloads.
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
    /// The limit for one token of a client, and for all programs that prove no client.
    static let limitPerClient = 64
    /// In lower-case hexadecimal digits.
    static let length = 64

    private let runs = Mutex<[Run]>([])
    private let hasRuns = Atomic<Bool>(false)

    init() {}

    /// Whether a request could present such a token. While `exec` runs nothing, this check is all that requests pay for.
    var isInUse: Bool { hasRuns.load(ordering: .relaxed) }

    /// Makes a token for a program.
    ///
    /// - Parameters:
    ///   - proof: A token of one of these clients, as which the program acts; nil if it proves no client.
    ///   - process: The program; nil for one that ends with the gateway.
    package func begin(
        as proof: Secret?,
        of clients: [AccessPlan.Client],
        _ process: ProcessMark?,
        sha256: ([UInt8]) -> [UInt8]
    ) -> Result<Secret, GatewayProblem> {
        let digest = proof.map { AccessPlan.Client.Token.token($0).digest(sha256) }
        let known = digest == nil ? [] : clients.flatMap(\.tokens).map { $0.digest(sha256) }
        let original = digest.flatMap { digest in known.first { $0.span.isSame(as: digest.span) } }
        // A signed token (JWT) is refused, because it may expire while the program runs.
        guard digest == nil || original != nil else {
            return .failure(GatewayProblem(.requestRefused, "The client token is not one of access.clients."))
        }
        return begin(for: original, process: process, sha256: sha256).map { .success($0) }
            ?? .failure(GatewayProblem(.overloaded, "Too many programs run with exec at the same time."))
    }

    /// - Parameter original: The SHA-256 of a client's own token; nil where the program proves no client.
    /// - Returns: nil where too many programs run.
    func begin(
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

    /// Removes the tokens of programs that have exited.
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
        guard value.count >= Self.length, value.count <= Self.length + Preset.ToolVariable.longestPrefix else {
            return nil
        }
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
