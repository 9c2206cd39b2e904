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

    private let store: any TokenStore
    private let keepers: @Sendable () -> [TokenKeeper]
    private let ended: @Sendable ([TokenKeeper]) async -> Void
    private let clock: any GatewayClock
    private let logger: Logger
    private let jitter: @Sendable () -> Double
    /// Records that the store told of and that have yet to be read.
    private let heard = Mutex<Set<CredentialKey>>([])
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
        for await key in changes {
            heard.withLock { _ = $0.insert(key) }
            wakeUps.continuation.yield()
        }
    }

    private func readWhatIsHeard() async {
        for await _ in wakeUps.stream { await read(takeHeard()) }
    }

    private func takeHeard() -> Set<CredentialKey> {
        heard.withLock { heard in
            defer { heard = [] }
            return heard
        }
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
            keepers().filter { keeper in changes.revisions[keeper.key].map(keeper.isUnknown) ?? false }.map(\.key)
        )
    }

    /// Hands records to the keepers that keep them.
    private func read(_ keys: Set<CredentialKey>) async {
        guard !keys.isEmpty else { return }
        var withdrawn: [TokenKeeper] = []
        for (key, keepers) in Dictionary(grouping: keepers().filter { keys.contains($0.key) }, by: \.key) {
            do throws(TokenStoreError) {
                let entry = try await store.load(key)
                withdrawn += keepers.filter { $0.notice(entry) }
            } catch {
                if case .unavailable = error { heard.withLock { _ = $0.insert(key) } }
                let metadata: Logger.Metadata = [
                    "gateway.credential": "\(keepers.first?.name ?? "")", "gateway.reason": "\(error.reason)",
                ]
                logger.warning("A changed token cannot be read", metadata: metadata)
            }
        }
        if !withdrawn.isEmpty { await ended(withdrawn) }
    }
}
