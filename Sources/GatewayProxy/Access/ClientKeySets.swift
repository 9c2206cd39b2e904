package import GatewayHTTP
package import GatewayTokens
import Synchronization

/// The keys of issuers that are fetched from URLs: what is known, and when to fetch.
///
/// The last set that was read stays in use while the issuer does not answer. Without one, nothing that the issuer signed is valid.
package final class ClientKeySets: Sendable {
    /// Between two fetches that succeed.
    package static let interval = Duration.seconds(600)
    /// Between two fetches for a key that is not in the set.
    static let minimumInterval = Duration.seconds(60)
    private static let firstPause = Duration.seconds(5)

    private struct Source {
        var set: JSONWebKeySet?
        var lastTry: MonotonicTime?
        var nextTry: MonotonicTime?
        var failures = 0
        /// A token names a key that is not in the set.
        var isWanted = false

        func isDue(at now: MonotonicTime) -> Bool {
            guard let lastTry, let nextTry else { return true }
            return nextTry <= now || (isWanted && lastTry + ClientKeySets.minimumInterval <= now)
        }
    }

    private let sources = Mutex<[AuthorityURL: Source]>([:])
    private let changes = Atomic<Int>(0)

    package init() {}

    /// Another number means that some set has changed.
    var generation: Int { changes.load(ordering: .relaxed) }

    func set(of url: AuthorityURL) -> JSONWebKeySet? { sources.withLock { $0[url]?.set } }

    func want(_ url: AuthorityURL) { sources.withLock { $0[url]?.isWanted = true } }

    /// The key sets to fetch now. The caller reports the result of each.
    ///
    /// - Parameter urls: The URLs of the configuration of the moment. Others are forgotten.
    package func due(among urls: Set<AuthorityURL>, at now: MonotonicTime) -> [AuthorityURL] {
        sources.withLock { sources in
            sources = sources.filter { urls.contains($0.key) }
            let due = urls.filter { sources[$0]?.isDue(at: now) ?? true }
            for url in due {
                sources[url, default: Source()].lastTry = now
                sources[url]?.nextTry = now + Self.minimumInterval
                sources[url]?.isWanted = false
            }
            return due.sorted { $0.text < $1.text }
        }
    }

    package func take(_ set: JSONWebKeySet, from url: AuthorityURL, at now: MonotonicTime) {
        let isNew = sources.withLock { sources in
            defer {
                sources[url]?.set = set
                sources[url]?.failures = 0
                sources[url]?.nextTry = now + Self.interval
            }
            return sources[url]?.set != set
        }
        if isNew { changes.add(1, ordering: .relaxed) }
    }

    /// - Returns: Whether it is the first failure after a success, or the first of all.
    package func fail(_ url: AuthorityURL, at now: MonotonicTime) -> Bool {
        sources.withLock { sources in
            guard var source = sources[url] else { return false }
            source.failures += 1
            let pause = source.set == nil ? Self.firstPause * min(source.failures, 12) : Self.minimumInterval
            source.nextTry = now + pause
            sources[url] = source
            return source.failures == 1
        }
    }
}
