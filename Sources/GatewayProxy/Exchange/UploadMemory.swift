package import GatewayHTTP
import Synchronization

/// The memory of request bodies that wait for upstreams, for each client (`limits.upload_memory`), shared by all workers.
///
/// What an upstream takes at once is never counted.
package final class UploadMemory: Sendable {
    /// What each client holds; nil stands for all clients without a name. A client that holds nothing has no entry.
    private let sums = Mutex<[String?: Int]>([:])
    private let maximum: Atomic<Int>

    package init(limit: Int) { maximum = Atomic(limit) }

    package var limit: Int { maximum.load(ordering: .relaxed) }

    /// After a reload. A client that holds too much is refused more.
    package func setLimit(_ limit: Int) { maximum.store(limit, ordering: .relaxed) }

    /// A request of the client holds more or less than before.
    ///
    /// - Returns: Whether the client may hold that much. If not, nothing is counted.
    package func change(of client: String?, by count: Int) -> Bool {
        let limit = limit
        return sums.withLock { sums in
            let sum = sums[client, default: 0] + count
            assert(sum >= 0, "More memory is given back than was taken.")
            guard count <= 0 || sum <= limit else { return false }
            sums[client] = sum > 0 ? sum : nil
            return true
        }
    }

    package func bytes(of client: String?) -> Int { sums.withLock { $0[client] ?? 0 } }

    /// Whether to read more from the client than its upstream takes. Half of the memory is kept for requests that cannot avoid waiting.
    package func allowsReadingAhead(for client: String?) -> Bool { bytes(of: client) < limit / 2 }

    /// The answer to a request that needs more.
    package var problem: GatewayProblem {
        GatewayProblem(
            .clientLimitReached,
            "The request bodies of this client that wait for upstreams need more memory than"
                + " limits.upload_memory allows (\(ConfigUnits.text(bytes: limit))).",
            retryAfter: .seconds(1)
        )
    }
}

/// What one request holds of ``UploadMemory``, and how far its client is read while the upstream takes nothing.
package struct UploadHold: Sendable {
    /// How long the upstream may take nothing before the client is read further.
    package static let patience = Duration.seconds(2)
    /// Bytes after a complete request that are not counted: most likely the next requests of the connection, at most one read of them.
    static let uncounted = 16_384

    package private(set) var bytes = 0
    /// The client is read further than the upstream takes: that it has left is noticed only behind everything it has sent.
    package private(set) var isAhead = false
    /// The deadline that is set is that of ``patience``.
    private var isPatient = false

    package init() {}

    // MARK: Memory

    /// - Parameters:
    ///   - unread: What has come from the client and was not looked at yet.
    ///   - behindEnd: That is behind the end of the request.
    ///   - untaken: What the upstream's connection has not taken.
    ///   - copy: The size of the copy of the content, for a second try. It counts only while something waits.
    /// - Returns: By how much that is more than the request holds.
    package func growth(unread: Int, behindEnd: Bool, untaken: Int, copy: Int) -> Int {
        let waiting = (behindEnd && unread <= Self.uncounted ? 0 : unread) + untaken
        return (waiting == 0 ? 0 : waiting + copy) - bytes
    }

    /// ``UploadMemory`` has counted that.
    package mutating func change(by count: Int) {
        bytes += count
        assert(bytes >= 0, "A request gives back more memory than it holds.")
    }

    // MARK: Pace

    /// The upstream takes no more for now. Also while the client is read further: memory that it lacked may be free by the next deadline.
    ///
    /// - Parameter limit: How long neither side may move.
    /// - Returns: Whether the next deadline is that of ``patience``.
    package mutating func upstreamIsFull(limit: Duration) -> Bool {
        guard limit > Self.patience else { return false }
        isPatient = true
        return true
    }

    /// Another deadline than that of ``patience`` was set.
    package mutating func deadlineWasSet() { isPatient = false }

    /// - Returns: Whether it was that of ``patience``. From now on the client is read further.
    package mutating func deadlinePassed() -> Bool {
        guard isPatient else { return false }
        (isPatient, isAhead) = (false, true)
        return true
    }

    package mutating func upstreamTakesMore() { isAhead = false }
}
