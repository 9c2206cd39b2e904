package import GatewayHTTP

/// What became of each credential's tokens in the last seven days: for the strips of the page.
///
///     nothing ──acquired, logged in, loaded, accepted──▶ live ──renewed──▶ next life
///        ▲                                                │
///        └──────── ended; expired without a failure ──────┤
///     missing ◀── expired, or rejected, with a failure ───┘
///
/// A lock lies above all of them until it is removed. Memory is bounded: events of one kind that follow each other closely are one
/// entry with a count, and a credential with too many entries loses its oldest ones.
package struct CredentialTimeline: Sendable {
    package enum Mark: UInt8, CaseIterable, Sendable {
        /// A first token: from the authorization server, an import, another gateway.
        case acquired
        case renewed
        /// A token from a person.
        case loggedIn
        /// A token of the store, after a start.
        case loaded
        /// By an upstream.
        case rejected
        /// By the authorization server, or it could not be asked.
        case refused
        /// Expired, revoked or cleared.
        case ended
        case locked
        case unlocked
        /// A static credential was let in, by the first of some requests.
        case accepted
        /// A static credential was rejected, by the first of some requests.
        case turnedAway
    }

    /// One event of a credential, without what a strip does not show.
    package struct Event: Hashable, Sendable {
        package let credential: String
        package let mark: Mark
        package let at: UnixTime
        package let expiresAt: UnixTime?

        package init(_ mark: Mark, of credential: String, at: UnixTime, expiresAt: UnixTime? = nil) {
            self.credential = credential
            self.mark = mark
            self.at = at
            self.expiresAt = expiresAt
        }

        /// - Returns: nil for an event that a strip does not show.
        package init?(_ entry: AuditEntry) {
            guard let credential = entry.credential, let mark = Mark(event: entry.event),
                let at = UnixTime(rfc3339: entry.at)
            else { return nil }
            self.init(mark, of: credential, at: at, expiresAt: entry.expiresAt.flatMap { UnixTime(rfc3339: $0) })
        }
    }

    package static let days = 7
    /// Events of one kind within this many seconds are one entry.
    static let slot: Int64 = 300
    /// Entries of one credential.
    static let entryLimit = 1024
    /// Credentials that are remembered; subjects that requests name are without number.
    static let credentialLimit = 1000

    private struct Entry {
        /// Since 1970.
        var second: UInt32
        /// Since 1970; 0 when it is not known.
        var expires: UInt32
        var mark: Mark
        var count: UInt16 = 1

        init(_ event: Event) {
            second = Self.seconds(event.at)
            expires = event.expiresAt.map(Self.seconds) ?? 0
            mark = event.mark
        }

        static func seconds(_ time: UnixTime) -> UInt32 { UInt32(clamping: time.milliseconds / 1000) }
    }

    /// The entries of one credential, the oldest first.
    private struct Line {
        var entries: [Entry] = []

        var latest: UInt32 { entries.last?.second ?? 0 }

        mutating func add(_ entry: Entry) {
            // Nearly always at the end; rows of the log that were read after a start come before those that were written since.
            var place = entries.endIndex
            while place > 0, entries[place - 1].second > entry.second { place -= 1 }
            if place > 0, entries[place - 1].mark == entry.mark {
                let before = entries[place - 1]
                if before.second == entry.second, before.expires == entry.expires { return }
                if Int64(entry.second) - Int64(before.second) < slot {
                    entries[place - 1].count = before.count == .max ? .max : before.count + 1
                    entries[place - 1].expires = entry.expires
                    return
                }
            }
            entries.insert(entry, at: place)
            trim()
        }

        private mutating func trim() {
            let begin = Int64(latest) - Int64(days) * 86_400
            // What was before the first day says how it begins.
            if let old = entries.firstIndex(where: { Int64($0.second) >= begin }), old > 16 {
                entries.removeFirst(old - 1)
            }
            if entries.count > entryLimit { entries.removeFirst(entryLimit / 4) }
        }
    }

    private var lines: [String: Line] = [:]

    package init() {}

    package mutating func add(_ entry: AuditEntry) {
        if let event = Event(entry) { add(event) }
    }

    package mutating func add(_ event: Event) {
        if lines[event.credential] == nil { makeRoom() }
        lines[event.credential, default: Line()].add(Entry(event))
    }

    /// Notes how upstreams have answered a static credential lately. Only a change takes memory.
    ///
    /// - Parameter isAccepted: Whether any of its requests was let in.
    package mutating func add(useOf credential: String, isAccepted: Bool, at time: UnixTime) {
        let mark: Mark = isAccepted ? .accepted : .turnedAway
        let entries = lines[credential]?.entries ?? []
        let last = entries.lastIndex { $0.mark == .accepted || $0.mark == .turnedAway }
        guard let last else { return add(Event(mark, of: credential, at: time)) }
        guard entries[last].mark != mark else { return }
        let isRecent = time.milliseconds / 1000 - Int64(entries[last].second) < Self.slot
        // Answers that differ from one request to the next must not fill the memory.
        if isRecent, last == entries.endIndex - 1 {
            lines[credential]?.entries[last].mark = mark
        } else {
            add(Event(mark, of: credential, at: time))
        }
    }

    private mutating func makeRoom() {
        guard lines.count >= Self.credentialLimit else { return }
        guard let oldest = lines.min(by: { $0.value.latest < $1.value.latest }) else { return }
        lines[oldest.key] = nil
    }

    /// When the credential was locked; nil when it is not, or when that is longer ago than the timeline knows.
    package func lockedAt(_ credential: String) -> UnixTime? {
        let entries = lines[credential]?.entries ?? []
        guard let last = entries.last(where: { $0.mark == .locked || $0.mark == .unlocked }), last.mark == .locked
        else { return nil }
        return UnixTime(seconds: Int64(last.second))
    }

    /// What the timeline knows of a credential between two times.
    package func strip(of credential: String, from start: UnixTime, to end: UnixTime) -> Strip {
        var walk = Walk(from: start.milliseconds / 1000, to: end.milliseconds / 1000)
        for entry in lines[credential]?.entries ?? [] { walk.take(entry) }
        return walk.finish()
    }

    /// Goes through the entries of one credential.
    private struct Walk {
        let start: Int64
        let end: Int64
        private var strip = Strip()
        /// What the state below holds since.
        private var since = Int64.min
        private var isLive = false
        private var isOdd = false
        private var expires: UInt32 = 0
        /// The authorization server refused since the last life began.
        private var isFailing = false
        private var isRejected = false
        private var isLocked = false

        init(from start: Int64, to end: Int64) {
            self.start = start
            self.end = end
        }

        mutating func take(_ entry: Entry) {
            let time = Int64(entry.second)
            guard time <= end else { return }
            switch entry.mark {
            case .loaded where isLive && expires == entry.expires: return
            // As before the last start.
            case .accepted where isLive: return
            case .acquired, .renewed, .loggedIn, .loaded, .accepted:
                close(at: time)
                (isLive, isFailing, isRejected) = (true, false, false)
                isOdd.toggle()
                expires = entry.expires
            case .refused:
                close(at: time)
                if isRejected { isLive = false }
                isFailing = true
            case .rejected: isRejected = true
            case .turnedAway:
                close(at: time)
                (isLive, isFailing) = (false, true)
            case .ended:
                close(at: time)
                isLive = false
            case .locked, .unlocked:
                close(at: time)
                isLocked = entry.mark == .locked
            }
            if time >= start {
                strip.points.append(
                    Strip.Point(mark: entry.mark, at: UnixTime(seconds: time), count: Int(entry.count))
                )
            }
        }

        mutating func finish() -> Strip {
            close(at: end)
            return strip
        }

        private mutating func close(at time: Int64) {
            defer { since = max(since, time) }
            if isLocked { return add(.locked, since, time) }
            var from = since
            if isLive {
                let over = expires == 0 ? time : min(time, max(Int64(expires), from))
                add(isOdd ? .odd : .even, from, over)
                guard over < time else { return }
                isLive = false
                from = over
            }
            if isFailing { add(.missing, from, time) }
        }

        private mutating func add(_ kind: Strip.Kind, _ from: Int64, _ to: Int64) {
            let (from, to) = (max(from, start), min(to, end))
            guard from < to else { return }
            if let last = strip.spans.last, last.kind == kind, last.to == UnixTime(seconds: from) {
                strip.spans[strip.spans.count - 1].to = UnixTime(seconds: to)
            } else {
                strip.spans.append(
                    Strip.Span(kind: kind, from: UnixTime(seconds: from), to: UnixTime(seconds: to))
                )
            }
        }
    }
}

extension CredentialTimeline {
    /// Some hours or days of one credential.
    package struct Strip: Hashable, Sendable {
        package enum Kind: Sendable {
            /// The lives of tokens, in turn.
            case odd, even
            /// There was no token, because none could be obtained, or upstreams let nothing in.
            case missing
            case locked
        }

        package struct Span: Hashable, Sendable {
            package let kind: Kind
            package let from: UnixTime
            package fileprivate(set) var to: UnixTime
        }

        package struct Point: Hashable, Sendable {
            package let mark: Mark
            package let at: UnixTime
            /// How many events it stands for.
            package let count: Int
        }

        /// In the order of time. Between them nothing is known, or there was no token and nobody asked for one.
        package fileprivate(set) var spans: [Span] = []
        package fileprivate(set) var points: [Point] = []
    }
}

extension CredentialTimeline.Mark {
    /// nil for an event that the timeline does not show.
    package init?(event: String) {
        switch TokenEvent.Name(rawValue: event) {
        case .acquired, .imported, .adopted: self = .acquired
        case .renewed: self = .renewed
        case .loginCompleted: self = .loggedIn
        case .loaded: self = .loaded
        case .rejected: self = .rejected
        case .acquisitionFailed, .renewalFailed, .loginRequired, .loginFailed: self = .refused
        case .expired, .revoked, .cleared: self = .ended
        case .locked: self = .locked
        case .unlocked: self = .unlocked
        default: return nil
        }
    }
}
