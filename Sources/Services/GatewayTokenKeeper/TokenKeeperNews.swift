package import GatewayCore
import Synchronization

/// What other gateways, and operators there, have written to the store.
extension TokenKeeper {
    struct News {
        let entry: TokenEntry
        /// Requests wait until it is taken up.
        let hasTakenAway: Bool
    }

    /// Whether the store holds a later record than this keeper knows.
    package func isNews(_ revision: TokenRevision) -> Bool {
        revision.value != knownRevision.load(ordering: .acquiring)
    }

    /// Takes up an entry of the store. What it takes away is not handed out from now on, as with ``takeAway(_:)``.
    ///
    /// - Returns: Whether it takes the token away.
    @discardableResult
    package func notice(_ entry: TokenEntry) -> Bool {
        guard isNews(entry.revision), !isStopping.load(ordering: .acquiring) else { return false }
        let takesAway = (entry.token?.isRevoked ?? true) && look { $0.held != nil }
        if takesAway { decide { $0.beginClear() } }
        news.withLock { news in
            let isLatest = news.map { $0.entry.revision <= entry.revision } ?? true
            news = News(
                entry: isLatest ? entry : news?.entry ?? entry,
                hasTakenAway: takesAway || news?.hasTakenAway ?? false
            )
        }
        wake()
        return takesAway
    }

    /// The store works again: a call that failed for its sake is made now.
    package func storeReturned() {
        if decide({ $0.storeReturned() }) { wake() }
    }

    /// - Returns: Whether there was any.
    func takeUpNews(_ renewer: inout TokenRenewer) async -> Bool {
        defer { knownRevision.store(renewer.stored.revision.value, ordering: .releasing) }
        guard renewer.hasLooked, let news = nextNews(&renewer) else { return false }
        let isOwn = news.entry.revision == renewer.stored.revision
        let end = isOwn ? .nothing : await renewer.takeUp(news.entry, after: look { $0.generation })
        switch end {
        case .nothing: break
        case .adopted(let fresh): install(fresh)
        case .withdrawn: forgetWithdrawn(&renewer)
        }
        if news.hasTakenAway { resume() }
        showUncertainty(of: renewer)
        return true
    }

    /// What has overtaken a write comes first. News may be the keeper's own writes.
    private func nextNews(_ renewer: inout TokenRenewer) -> News? {
        if let entry = renewer.overtakenBy.take() { return News(entry: entry, hasTakenAway: false) }
        return news.withLock { $0.take() }
    }

    /// The token was taken away at another gateway.
    func forgetWithdrawn(_ renewer: inout TokenRenewer) {
        leave(&renewer)
        dropDescendants()
    }
}
