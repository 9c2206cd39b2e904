import GatewayHTTP
package import Logging
import ServiceLifecycle
import Synchronization

/// Tells the keepers of one gateway what others have written to a store that they share.
///
/// A store that can announces changes. In addition ``follow()`` polls it, with one query for all records.
package final class TokenStoreWatcher: Service {
    private struct State {
        /// Records that the store announced and that have yet to be read.
        var heard: [CredentialKey: TokenChange] = [:]
        /// Records that could not be read, and are read again.
        var unread: Set<CredentialKey> = []
        /// Keepers whose withdrawn token may still be in use.
        var unended: [TokenKeeper] = []
        /// Kept when what was heard last is followed.
        var reading: Promise<Void>?
        var mark: TokenStoreMark?
        var isAway = false
    }

    /// How many records are read again in one look at the store.
    private static let maximumReadAgain = 100
    /// How many records are read at the same time.
    static let readsAtATime = 256

    private let store: any TokenStore
    private let keepers: @Sendable () -> [TokenKeeper]
    private let ended: @Sendable ([TokenKeeper]) async -> Bool
    private let logger: Logger
    /// Subscribed to at once, so that changes before ``run()`` are not lost.
    private let changes: AsyncStream<TokenChange>?
    private let state = Mutex(State())
    private let wakeUps = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// - Parameters:
    ///   - keepers: Those that run by now.
    ///   - ended: Ends what is under way with a token that these keepers have just withdrawn; returns whether that is confirmed.
    package init(
        of store: any TokenStore,
        keepers: @escaping @Sendable () -> [TokenKeeper],
        ended: @escaping @Sendable ([TokenKeeper]) async -> Bool,
        logger: Logger
    ) {
        self.store = store
        self.keepers = { keepers().filter { $0.context.store.isShared } }
        self.ended = ended
        self.logger = logger
        changes = store.isShared ? store.changes() : nil
    }

    /// Listens for the changes that the store announces. Does nothing for a store that no other gateway uses.
    package func run() async throws {
        guard store.isShared else {
            try? await gracefulShutdown()
            return
        }
        await cancelWhenGracefulShutdown { [self] in
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.listen() }
                group.addTask { await self.readWhatIsHeard() }
                await group.waitForAll()
            }
        }
    }

    private func listen() async {
        guard let changes else { return }
        for await change in changes {
            state.withLock { $0.heard[change.key] = change.joined(with: $0.heard[change.key]) }
            wakeUps.continuation.yield()
        }
    }

    private func readWhatIsHeard() async {
        for await _ in wakeUps.stream {
            let done = Promise<Void>()
            state.withLock { $0.reading = done }
            await read(takeHeard())
            state.withLock { $0.reading = nil }
            done.keep(())
        }
    }

    /// - Returns: Those that a keeper does not know yet.
    private func takeHeard() -> Set<CredentialKey> {
        let changes = state.withLock { state in
            defer { state.heard = [:] }
            return state.heard
        }
        guard !changes.isEmpty else { return [] }
        let news = keepers().filter { keeper in
            changes[keeper.key].map { $0.revision.map(keeper.isUnknown) ?? true } ?? false
        }
        return Set(news.map(\.key))
    }

    private var unread: ArraySlice<CredentialKey> { state.withLock { Array($0.unread) }.prefix(Self.maximumReadAgain) }

    /// Asks for changes and follows them. Misses none, also after a time without the store. Called by one task.
    ///
    /// - Returns: What was followed; nil when something was not, or when the store does not tell.
    package func follow() async -> FleetMark? {
        do throws(TokenStoreError) {
            let mark = state.withLock { $0.mark }
            let changes = try await store.changes(since: mark)
            // At the first time a keeper may have read its record just before it was changed.
            let keys = mark == nil ? Set(keepers().map(\.key)) : news(in: changes)
            let wasAway = state.withLock { state in
                state.mark = changes.mark
                defer { state.isAway = false }
                return state.isAway
            }
            await read(keys.union(takeHeard()).union(unread))
            if wasAway { storeReturned() }
            return await isFollowed() ? changes.upTo : nil
        } catch {
            let wasAway = state.withLock { state in
                defer { state.isAway = true }
                return state.isAway
            }
            if !wasAway {
                let metadata: Logger.Metadata = ["gateway.reason": "\(error.reason)"]
                logger.warning("The token store cannot be checked for changes", metadata: metadata)
            }
            return nil
        }
    }

    /// What the store told of may have been noticed, and its use not have ended yet.
    private func isFollowed() async -> Bool {
        await state.withLock { $0.reading }?.value()
        let own = Set(keepers().map(\.key))
        let unended = state.withLock { state in
            defer { state.unended = [] }
            return state.unended
        }
        await end(unended)
        return state.withLock { state in
            state.unread.formIntersection(own)
            return state.unread.isEmpty && state.unended.isEmpty
        }
    }

    private func end(_ withdrawn: [TokenKeeper]) async {
        guard !withdrawn.isEmpty, await !ended(withdrawn) else { return }
        state.withLock { state in
            let known = Set(state.unended.map(ObjectIdentifier.init))
            state.unended += withdrawn.filter { !known.contains(ObjectIdentifier($0)) }
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
        await end(withdrawn)
    }

    /// - Returns: Those whose token it takes away.
    private func read(_ key: CredentialKey, for keepers: [TokenKeeper]) async -> [TokenKeeper] {
        do throws(TokenStoreError) {
            let entry = try await store.load(key)
            let withdrawn = keepers.filter { $0.notice(entry) }
            state.withLock { _ = $0.unread.remove(key) }
            return withdrawn
        } catch {
            guard state.withLock({ $0.unread.insert(key).inserted }) else { return [] }
            let metadata: Logger.Metadata = [
                "gateway.credential": "\(keepers.first?.name ?? "")", "gateway.reason": "\(error.reason)",
            ]
            logger.warning("A changed token cannot be read", metadata: metadata)
            return []
        }
    }
}
