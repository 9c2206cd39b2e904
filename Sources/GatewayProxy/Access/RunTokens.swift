import GatewayConfiguration
package import GatewayHTTP
import Synchronization

/// The tokens of programs that `authgateway exec` runs. SDKs send them where they would send their API key.
///
/// Each stands for one of a client's own tokens, and is worthless once that token is no longer configured. It proves the client only on
/// loopback, and only until its program exits. Tokens are kept in memory, also across reloads.
package final class RunTokens: Sendable {
    /// A program that runs with such a token.
    package struct Program: Sendable {
        /// The user of this machine who started it; nil if unknown.
        let user: UInt32?
        /// Costs a system call, so it is called without the lock.
        let isAlive: @Sendable () -> Bool

        package init(user: UInt32? = nil, isAlive: @escaping @Sendable () -> Bool) {
            self.user = user
            self.isAlive = isAlive
        }
    }

    /// Whose share of the tokens it counts against.
    private enum Owner: Hashable {
        /// The SHA-256 of the client's token that it stands for.
        case client([UInt8])
        /// It proves no client. All unknown users have one share.
        case user(UInt32?)

        var isClient: Bool { if case .client = self { true } else { false } }
    }

    private struct Run {
        /// The SHA-256 of the token.
        let digest: [UInt8]
        let owner: Owner
        let isAlive: @Sendable () -> Bool
    }

    /// A token that is known.
    struct Found: Hashable {
        /// The SHA-256 of the client's token that it stands for; nil where it proves no client.
        let original: [UInt8]?
    }

    /// Each digest is compared for a request that presents such a token.
    static let limit = 1024
    /// The limit for all programs that prove no client: anybody on this machine may start them.
    static let limitWithoutClient = 512
    /// The limit for one token of a client, and for one user whose programs prove no client.
    static let limitPerOwner = 64
    /// In lower-case hexadecimal digits.
    static let length = 64

    private let runs = Mutex<[Run]>([])
    private let hasRuns = Atomic<Bool>(false)

    init() {}

    /// Whether a request could present such a token. While `exec` runs nothing, this check is all that requests pay for.
    var isInUse: Bool { hasRuns.load(ordering: .relaxed) }

    /// Makes a token for a program.
    ///
    /// - Parameter proof: A token of one of these clients, as which the program acts; nil if it proves no client.
    package func begin(
        as proof: Secret?,
        of clients: [AccessPlan.Client],
        _ program: Program,
        sha256: ([UInt8]) -> [UInt8]
    ) -> Result<Secret, GatewayProblem> {
        let digest = proof.map { AccessPlan.Client.Token.token($0).digest(sha256) }
        let known = digest == nil ? [] : clients.flatMap(\.tokens).map { $0.digest(sha256) }
        let original = digest.flatMap { digest in known.first { $0.span.isSame(as: digest.span) } }
        // A signed token (JWT) is refused, because it may expire while the program runs.
        guard digest == nil || original != nil else {
            return .failure(GatewayProblem(.requestRefused, "The client token is not one of access.clients."))
        }
        return begin(for: original, program, sha256: sha256).map { .success($0) }
            ?? .failure(GatewayProblem(.overloaded, "Too many programs are running with exec."))
    }

    /// - Parameter original: The SHA-256 of a client's own token; nil where the program proves no client.
    /// - Returns: nil where too many programs run.
    func begin(for original: [UInt8]?, _ program: Program, sha256: ([UInt8]) -> [UInt8]) -> Secret? {
        let token = Hexadecimal.random(bytes: Self.length / 2)
        let owner = original.map { Owner.client($0) } ?? .user(program.user)
        let run = Run(digest: sha256(Array(token.utf8)), owner: owner, isAlive: program.isAlive)
        if add(run) { return Secret(token) }
        // Programs that have exited may still count. Only this owner's are checked, because a program can ask again and again.
        removeExited { $0.owner == owner }
        return add(run) ? Secret(token) : nil
    }

    private func add(_ run: Run) -> Bool {
        runs.withLock { runs in
            guard runs.count < Self.limit, runs.count(where: { $0.owner == run.owner }) < Self.limitPerOwner,
                run.owner.isClient || runs.count(where: { !$0.owner.isClient }) < Self.limitWithoutClient
            else { return false }
            runs.append(run)
            hasRuns.store(true, ordering: .relaxed)
            return true
        }
    }

    /// Removes the tokens of programs that have exited. They are invalid already, but count against the limits.
    package func removeExited() {
        guard isInUse else { return }
        removeExited { _ in true }
    }

    private func removeExited(among isMeant: (Run) -> Bool) {
        let gone = Set(runs.withLock { $0 }.filter { isMeant($0) && !$0.isAlive() }.map(\.digest))
        guard !gone.isEmpty else { return }
        runs.withLock { runs in
            runs.removeAll { gone.contains($0.digest) }
            hasRuns.store(!runs.isEmpty, ordering: .relaxed)
        }
    }

    /// Whether a token can have that byte.
    static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) }

    /// Digests are compared, all of them and to their ends, so the time tells nothing about how near a guess was.
    ///
    /// - Parameter value: The token, with or without what an SDK wants to see before it.
    /// - Returns: nil also for the token of a program that has exited.
    func find(_ value: [UInt8], sha256: ([UInt8]) -> [UInt8]) -> Found? {
        guard value.count >= Self.length, value.count <= Self.length + Preset.ToolVariable.longestPrefix else {
            return nil
        }
        let token = Array(value.suffix(Self.length))
        guard token.allSatisfy(Self.isDigit) else { return nil }
        let digest = sha256(token)
        let found = runs.withLock { runs in
            var found: Run?
            for run in runs where run.digest.span.isSame(as: digest.span) { found = run }
            return found
        }
        guard let found, found.isAlive() else { return nil }
        if case .client(let original) = found.owner { return Found(original: original) }
        return Found(original: nil)
    }
}
