package import GatewayHTTP

/// Which acceptances one event loop tells to what all of them share: most are like one that was told a moment ago, and cost neither
/// a template nor a lock.
package struct AcceptanceFilter {
    /// What is told of an acceptance.
    package enum Report: Hashable, Sendable {
        case nothing
        /// There was an acceptance, on a path that is known.
        case acceptance
        /// There was an acceptance, on a path that is new.
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

    /// Whether to tell of a renewable token that was accepted: once for each path, because a path that has accepted it is judged by
    /// that.
    package mutating func isNew(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        recent.isNew(bytes, method: head.method, path: head.path)
    }

    /// What to tell of a static credential that was accepted: once a second for each client, and for each new path.
    package mutating func report(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        by client: String?,
        for interest: Interest,
        at now: MonotonicTime
    ) -> Report {
        let isNew = interest.templates && isNew(head, bytes)
        if !isNew, !interest.all, let last, last.client == client, now - last.at < Self.pause { return .nothing }
        last = (client, now)
        return isNew ? .template : .acceptance
    }
}

/// The paths that one worker has seen accepted lately, so that the template of each is worked out once and not with each response.
///
/// A hash of the whole path, eight bytes at a time. A collision is harmless: the template is then not noted once more.
///
/// Now and then all are forgotten: ``ConfirmedTemplates`` may have lost one to another template, and it comes back only if
/// it is noted again.
package struct RecentPaths {
    private var hashes: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    /// How often a path was known, since they were forgotten.
    private var repetitions: UInt8 = 0

    package init() {}

    /// - Returns: Whether the path was not among the last four new ones, or is to be noted once more.
    package mutating func isNew(
        _ bytes: borrowing Span<UInt8>,
        method: Range<Int>,
        path: Range<Int>
    ) -> Bool {
        var hash = UInt64(truncatingIfNeeded: path.count) &<< 32 | UInt64(truncatingIfNeeded: method.count) | 1
        hash = Self.adding(bytes, method, to: hash)
        hash = Self.adding(bytes, path, to: hash)
        if hash == hashes.0 || hash == hashes.1 || hash == hashes.2 || hash == hashes.3 {
            repetitions &+= 1
            guard repetitions == 0 else { return false }
            hashes = (0, 0, 0, 0)
        }
        hashes = (hash, hashes.0, hashes.1, hashes.2)
        return true
    }

    @inline(__always)
    private static func adding(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>, to start: UInt64) -> UInt64 {
        var (hash, index) = (start, range.lowerBound)
        while index &+ 8 <= range.upperBound {
            let word = unsafe bytes.bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
            hash = (hash ^ word) &* 0x9E37_79B9_7F4A_7C15
            hash ^= hash &>> 29
            index &+= 8
        }
        while index < range.upperBound {
            hash = (hash ^ UInt64(bytes[index])) &* 0x9E37_79B9_7F4A_7C15
            index &+= 1
        }
        return hash ^ hash &>> 32
    }
}
