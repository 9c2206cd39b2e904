import Synchronization

/// The memory of request bodies that wait for upstreams, for each client (`limits.upload_memory`), shared by all workers.
///
/// What an upstream takes at once is never counted.
package final class UploadMemory: Sendable {
    /// By client; nil is everybody without a name. Only of clients that hold something.
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
