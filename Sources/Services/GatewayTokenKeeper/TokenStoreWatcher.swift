package import GatewayCore
package import Logging
import ServiceLifecycle
import Synchronization

/// Tells the keepers of one gateway what others have written to a store that they share.
///
/// The store tells of changes, where it can. Beside that it is asked about every second, with one question for all records.
package final class TokenStoreWatcher: Service {
    /// How often the store is asked; a quarter of it more at the most, so that gateways do not ask at the same time.
    static let interval: Duration = .seconds(1)
    /// How many records are read at the same time.
    static let readsAtATime = 256

    private let store: any TokenStore
    private let keepers: @Sendable () -> [TokenKeeper]
    private let ended: @Sendable ([TokenKeeper]) async -> Void
    private let clock: any GatewayClock
    private let logger: Logger
    private let jitter: @Sendable () -> Double
    /// Records that the store told of and that have yet to be read.
    private let heard = Mutex<[CredentialKey: TokenChange]>([:])
    private let wakeUps = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// - Parameters:
    ///   - keepers: Those that run by now.
    ///   - ended: Ends what is under way with a token that these keepers have just withdrawn.
    package init(
        of store: any TokenStore,
        keepers: @escaping @Sendable () -> [TokenKeeper],
        ended: @escaping @Sendable ([TokenKeeper]) async -> Void,
        clock: any GatewayClock,
        logger: Logger,
        jitter: @escaping @Sendable () -> Double = { Double.random(in: 0...1) }
    ) {
        self.store = store
        self.keepers = { keepers().filter(\.sharesStore) }
        self.ended = ended
        self.clock = clock
        self.logger = logger
        self.jitter = jitter
    }

    /// Does nothing for a store that no other gateway uses.
    package func run() async throws {
        guard store.isShared else {
            try? await gracefulShutdown()
            return
        }
        await cancelWhenGracefulShutdown { [self] in
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.listen() }
                group.addTask { await self.readWhatIsHeard() }
                group.addTask { await self.ask() }
                await group.waitForAll()
            }
        }
    }

    private func listen() async {
        guard let changes = store.changes() else { return }
        for await change in changes {
            heard.withLock { $0[change.key] = change }
            wakeUps.continuation.yield()
        }
    }

    private func readWhatIsHeard() async {
        for await _ in wakeUps.stream { await read(takeHeard()) }
    }

    /// - Returns: Those that a keeper does not know yet.
    private func takeHeard() -> Set<CredentialKey> {
        let changes = heard.withLock { heard in
            defer { heard = [:] }
            return heard
        }
        guard !changes.isEmpty else { return [] }
        let news = keepers().filter { keeper in
            changes[keeper.key].map { $0.revision.map(keeper.isNews) ?? true } ?? false
        }
        return Set(news.map(\.key))
    }

    /// Misses nothing, also after a time without the store.
    private func ask() async {
        var mark: TokenStoreMark?
        var isAway = false
        while !Task.isCancelled {
            do throws(TokenStoreError) {
                let changes = try await store.changes(since: mark)
                // At the first time a keeper may have read its record just before it was changed.
                let keys = mark == nil ? Set(keepers().map(\.key)) : news(in: changes)
                mark = changes.mark
                await read(keys.union(takeHeard()))
                if isAway { storeReturned() }
                isAway = false
            } catch {
                if !isAway {
                    let metadata: Logger.Metadata = ["gateway.reason": "\(error.reason)"]
                    logger.warning("The token store cannot be asked for changes", metadata: metadata)
                }
                isAway = true
            }
            guard (try? await clock.sleep(for: Self.interval + Self.interval / 4 * jitter())) != nil else { return }
        }
    }

    private func storeReturned() {
        logger.notice("The token store works again")
        for keeper in keepers() { keeper.storeReturned() }
    }

    private func news(in changes: TokenChanges) -> Set<CredentialKey> {
        guard !changes.revisions.isEmpty else { return [] }
        return Set(
            keepers().filter { keeper in changes.revisions[keeper.key].map(keeper.isNews) ?? false }.map(\.key)
        )
    }

    /// Hands records to the keepers that keep them.
    private func read(_ keys: Set<CredentialKey>) async {
        guard !keys.isEmpty else { return }
        let all = Dictionary(grouping: keepers().filter { keys.contains($0.key) }, by: \.key)
        // A store may make one statement of those that are read at the same time.
        let withdrawn = await withTaskGroup(of: [TokenKeeper].self) { group in
            var rest = all.makeIterator()
            for _ in 0..<Self.readsAtATime {
                guard let (key, keepers) = rest.next() else { break }
                group.addTask { await self.read(key, for: keepers) }
            }
            var withdrawn: [TokenKeeper] = []
            for await some in group {
                withdrawn += some
                if let (key, keepers) = rest.next() { group.addTask { await self.read(key, for: keepers) } }
            }
            return withdrawn
        }
        if !withdrawn.isEmpty { await ended(withdrawn) }
    }

    /// - Returns: Those whose token it takes away.
    private func read(_ key: CredentialKey, for keepers: [TokenKeeper]) async -> [TokenKeeper] {
        do throws(TokenStoreError) {
            let entry = try await store.load(key)
            return keepers.filter { $0.notice(entry) }
        } catch {
            if case .unavailable = error { heard.withLock { $0[key] = $0[key] ?? TokenChange(key) } }
            let metadata: Logger.Metadata = [
                "gateway.credential": "\(keepers.first?.name ?? "")", "gateway.reason": "\(error.reason)",
            ]
            logger.warning("A changed token cannot be read", metadata: metadata)
            return []
        }
    }
}
