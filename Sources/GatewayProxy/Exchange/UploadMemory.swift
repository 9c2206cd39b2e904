import GatewayHTTP
import Synchronization

/// The memory of request bodies that wait for upstreams, for each client (`limits.upload_memory`), shared by all workers.
///
/// What an upstream takes at once is never counted.
final class UploadMemory: Sendable {
    /// What each client holds; nil stands for all clients without a name. A client that holds nothing has no entry.
    private let sums = Mutex<[String?: Int]>([:])
    private let maximum: Atomic<Int>

    init(limit: Int) { maximum = Atomic(limit) }

    var limit: Int { maximum.load(ordering: .relaxed) }

    /// After a reload. A client that holds too much is refused more.
    func setLimit(_ limit: Int) { maximum.store(limit, ordering: .relaxed) }

    /// A request of the client holds more or less than before.
    ///
    /// - Returns: Whether the client may hold that much. If not, nothing is counted.
    func change(of client: String?, by count: Int) -> Bool {
        let limit = limit
        return sums.withLock { sums in
            let sum = sums[client, default: 0] + count
            assert(sum >= 0, "More memory is given back than was taken.")
            guard count <= 0 || sum <= limit else { return false }
            sums[client] = sum > 0 ? sum : nil
            return true
        }
    }

    func bytes(of client: String?) -> Int { sums.withLock { $0[client] ?? 0 } }

    /// Whether to read more from the client than its upstream takes. Half of the memory is kept for requests that cannot avoid waiting.
    func allowsReadingAhead(for client: String?) -> Bool { bytes(of: client) < limit / 2 }

    /// The answer to a request that needs more.
    var problem: GatewayProblem {
        GatewayProblem(
            .clientLimitReached,
            "The request bodies of this client that wait for upstreams need more memory than"
                + " limits.upload_memory allows (\(ConfigUnits.text(bytes: limit))).",
            retryAfter: .seconds(1)
        )
    }
}

/// What one request holds of ``UploadMemory``, and how far its client is read while the upstream takes nothing.
struct UploadHold: Sendable {
    /// How long the upstream may take nothing before the client is read further.
    static let patience = Duration.seconds(2)
    /// Bytes after a complete request that are not counted: most likely the next requests of the connection, at most one read of them.
    static let uncounted = 16_384

    private(set) var bytes = 0
    /// The client is read further than the upstream takes: that it has left is noticed only behind everything it has sent.
    private(set) var isAhead = false
    /// The deadline that is set is that of ``patience``.
    private var isPatient = false

    init() {}

    // MARK: Memory

    /// - Parameters:
    ///   - unread: What has come from the client and was not looked at yet.
    ///   - behindEnd: That is behind the end of the request.
    ///   - untaken: What the upstream's connection has not taken.
    ///   - copy: The size of the copy of the content, for a second try. It counts only while something waits.
    ///   - isCollected: The copy itself waits: no upstream has it yet.
    /// - Returns: By how much that is more than the request holds.
    func growth(unread: Int, behindEnd: Bool, untaken: Int, copy: Int, isCollected: Bool = false) -> Int {
        let waiting = (behindEnd && unread <= Self.uncounted ? 0 : unread) + untaken
        return (waiting == 0 && !isCollected ? 0 : waiting + copy) - bytes
    }

    /// ``UploadMemory`` has counted that.
    mutating func change(by count: Int) {
        bytes += count
        assert(bytes >= 0, "A request gives back more memory than it holds.")
    }

    // MARK: Pace

    /// The upstream takes no more for now. Also while the client is read further: memory that it lacked may be free by the next deadline.
    ///
    /// - Parameter limit: How long neither side may move.
    /// - Returns: Whether the next deadline is that of ``patience``.
    mutating func upstreamIsFull(limit: Duration) -> Bool {
        guard limit > Self.patience else { return false }
        isPatient = true
        return true
    }

    /// Another deadline than that of ``patience`` was set.
    mutating func deadlineWasSet() { isPatient = false }

    /// - Returns: Whether it was that of ``patience``. From now on the client is read further.
    mutating func deadlinePassed() -> Bool {
        guard isPatient else { return false }
        (isPatient, isAhead) = (false, true)
        return true
    }

    mutating func upstreamTakesMore() { isAhead = false }
}
