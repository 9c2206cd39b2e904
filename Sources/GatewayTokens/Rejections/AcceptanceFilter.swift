package import GatewayHTTP

/// Which acceptances one event loop tells to what all of them share: most are like one that was told a moment ago, and cost neither
/// a template nor a lock.
package struct AcceptanceFilter {
    /// What is told of an acceptance.
    package enum News: Hashable, Sendable {
        case nothing
        /// That there was one.
        case acceptance
        /// The same, and where.
        case template
    }

    /// What the listener wants to know beyond the first acceptance of a client in a while.
    package struct Interest {
        /// Where something was accepted.
        package var templates: Bool
        /// Each acceptance: one ends a doubt.
        package var all: Bool

        package init(templates: Bool, all: Bool) { (self.templates, self.all) = (templates, all) }
    }

    /// Where something was accepted lately.
    private var recent = RecentPaths()
    private var last: (client: String?, at: MonotonicTime)?
    private static let pause: Duration = .seconds(1)

    package init() {}

    /// Of a token that is renewed: each path is told once, since one that has accepted it is judged by that.
    package mutating func isNew(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        recent.isNew(bytes, method: head.method, path: head.path)
    }

    /// Of a credential that is always the same: once a second and client, and for a new path.
    package mutating func news(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        by client: String?,
        for interest: Interest,
        at now: MonotonicTime
    ) -> News {
        let isNew = interest.templates && isNew(head, bytes)
        if !isNew, !interest.all, let last, last.client == client, now - last.at < Self.pause { return .nothing }
        last = (client, now)
        return isNew ? .template : .acceptance
    }
}
