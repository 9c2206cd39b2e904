import Synchronization

/// What other gateways, and operators there, have written to the store.
extension TokenKeeper {
    struct RemoteChange {
        let entry: TokenEntry
        /// Requests wait until it is applied.
        let hasTakenAway: Bool
    }

    /// Whether other gateways may write the record.
    package var sharesStore: Bool { context.store.isShared }

    /// Whether the store holds another record than this keeper knows.
    package func isUnknown(_ revision: TokenRevision) -> Bool { revision != context.known.revision }

    /// Has an entry of the store applied. What it takes away is not handed out from now on, as with ``withdrawNow(_:)``.
    ///
    /// - Returns: Whether it takes the token away.
    @discardableResult
    package func notice(_ entry: TokenEntry) -> Bool {
        guard isUnknown(entry.revision), !isStopping.load(ordering: .acquiring) else { return false }
        let isLater = entry.revision > context.known.revision
        let takesAway = isLater && (entry.token?.isRevoked ?? true) && look { $0.held != nil }
        if takesAway { decide { $0.beginClear() } }
        news.withLock { news in
            let isLatest = news.map { $0.entry.revision <= entry.revision } ?? true
            news = RemoteChange(
                entry: isLatest ? entry : news?.entry ?? entry,
                hasTakenAway: takesAway || news?.hasTakenAway ?? false
            )
        }
        wake()
        return takesAway
    }

    /// Locks or unlocks as the store says. Does not record it: see ``SharedUnlocks`` for what is.
    ///
    /// - Returns: Whether this locked it.
    package func follow(isLocked: Bool) -> Bool {
        guard look({ $0.isLocked }) != isLocked else { return false }
        if isLocked { lock() } else { unlock() }
        return isLocked
    }

    /// The store works again: a call that failed for its sake is made now.
    package func storeReturned() {
        if decide({ $0.storeReturned() }) { wake() }
    }

    /// Reads what others may have written, before the authority is told of a token.
    func readNews(_ renewer: inout TokenRenewer) async {
        guard sharesStore, renewer.phase == .open, let entry = try? await context.store.load(context.key) else {
            return
        }
        await apply(entry, &renewer)
    }

    private func apply(_ entry: TokenEntry, _ renewer: inout TokenRenewer) async {
        switch await renewer.apply(entry, after: look { $0.generation }) {
        case .nothing: break
        case .adopted(let fresh): install(fresh)
        case .withdrawn: forgetWithdrawn(&renewer)
        }
    }

    /// - Returns: Whether there was any.
    func applyNews(_ renewer: inout TokenRenewer) async -> Bool {
        guard renewer.phase != .unread, let news = nextNews(&renewer) else { return false }
        await apply(news.entry, &renewer)
        if news.hasTakenAway { resume() }
        showUncertainty(of: renewer)
        return true
    }

    /// What has overtaken a write comes first. RemoteChange may be the keeper's own writes.
    private func nextNews(_ renewer: inout TokenRenewer) -> RemoteChange? {
        if let entry = renewer.overtakenBy.take() { return RemoteChange(entry: entry, hasTakenAway: false) }
        return news.withLock { $0.take() }
    }

    /// The token was taken away at another gateway.
    func forgetWithdrawn(_ renewer: inout TokenRenewer) {
        leave(&renewer)
        dropDescendants()
    }
}
