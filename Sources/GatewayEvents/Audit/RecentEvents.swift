package import GatewayHTTP

/// The newest rows of the audit log in memory, so that readers do not wait for a disk.
package struct RecentEvents: Sendable {
    package static let capacity = 1000
    /// Entries of one answer.
    package static let pageLimit = 500

    /// What there is of the rows that a query asked for, the newest first.
    package struct Page: Hashable, Sendable, Encodable {
        package var events: [AuditEntry]
        /// Whether no other row of the audit log matches.
        package var isComplete: Bool

        package init(events: [AuditEntry], isComplete: Bool) {
            self.events = events
            self.isComplete = isComplete
        }
    }

    /// Ascending ids.
    private var entries: [AuditEntry] = []
    /// Whether rows before the first of ``entries`` may exist.
    private var hasOlder = true

    package init() {}

    /// Adds rows as they are committed; one that is there already is ignored.
    package mutating func add(_ new: [AuditEntry]) {
        // The log was begun anew.
        if let first = new.first, first.id == 1 { entries = [] }
        let last = entries.last?.row ?? .min
        entries += new.filter { $0.row > last }
        trim()
    }

    /// Adds what the log held before the first row was added.
    ///
    /// - Parameter isWhole: Whether the log held no others.
    package mutating func begin(with older: [AuditEntry], isWhole: Bool) {
        let first = entries.first?.row ?? .max
        entries = older.filter { $0.row < first } + entries
        hasOlder = !isWhole
        trim()
    }

    private mutating func trim() {
        defer { assert(entries.count <= Self.capacity + Self.capacity / 4, "More rows are kept than there may be.") }
        // With slack: to move the rest for each new entry would be quadratic.
        guard entries.count > Self.capacity + Self.capacity / 4 else { return }
        entries.removeFirst(entries.count - Self.capacity)
        hasOlder = true
    }

    /// - Parameter id: Only rows with a greater id.
    package func page(_ query: EventQuery, since id: Int64? = nil, limit: Int = pageLimit) -> Page {
        let since = id ?? .min
        var found: [AuditEntry] = []
        var isCut = false
        for entry in entries.reversed() {
            guard entry.row > since else { break }
            guard query.matches(entry) else { continue }
            guard found.count < limit else {
                isCut = true
                break
            }
            found.append(entry)
        }
        return Page(events: found, isComplete: !isCut && reaches(since))
    }

    /// What matches behind a row, the oldest first.
    ///
    /// - Returns: `isWhole` is false when some of them are not in memory any more.
    package func entries(after id: Int64, matching query: EventQuery) -> (entries: [AuditEntry], isWhole: Bool) {
        (entries.filter { $0.row > id && query.matches($0) }, reaches(id))
    }

    private func reaches(_ id: Int64) -> Bool {
        guard hasOlder else { return true }
        guard let first = entries.first?.row else { return false }
        return id >= first - 1
    }
}

extension AuditEntry {
    fileprivate var row: Int64 { id ?? 0 }

    /// Whether it tells of this credential, or of one of its subjects.
    fileprivate func isOf(_ name: String) -> Bool {
        credential == name || credential?.hasPrefix("\(name)[") == true
    }
}

/// Which events somebody wants to see: the filters of `/api/events` and of the page. All conditions hold together.
package struct EventQuery: Hashable, Sendable {
    /// Groups of events that people look for together.
    package enum Group: String, CaseIterable, Sendable {
        /// Every request, also those that succeeded. They are no rows of the audit log.
        case requests
        case failures
        case renewals
        case logins
        case configuration
    }

    package enum Kind: Hashable, Sendable {
        case group(Group)
        case event(TokenEvent.Name)
    }

    package var kind: Kind?
    package var client: String?
    package var route: String?
    package var request: String?
    /// Its subjects (`box[user:42]`) are included.
    package var credential: String?
    /// For the page: a request without a token also counts in a row of failed requests, and a row for each would hide the others. They
    /// are shown where one request or credential is asked for.
    package var mergesWithheld = false

    package init(
        kind: Kind? = nil,
        client: String? = nil,
        route: String? = nil,
        request: String? = nil,
        credential: String? = nil
    ) {
        self.kind = kind
        self.client = client
        self.route = route
        self.request = request
        self.credential = credential
    }

    /// - Parameter value: The value of the query parameter with this name; an empty one is none.
    package init(_ value: (_ name: String) -> String?) throws(GatewayProblem) {
        func filter(_ name: String) -> String? { value(name).flatMap { $0.isEmpty ? nil : String($0.prefix(256)) } }
        self.init(
            client: filter("client"),
            route: filter("route"),
            request: filter("request"),
            credential: filter("credential")
        )
        kind = try filter("kind").map(Self.kind)
    }

    private static func kind(_ text: String) throws(GatewayProblem) -> Kind {
        if let group = Group(rawValue: text) { return .group(group) }
        if let event = TokenEvent.Name(rawValue: text) { return .event(event) }
        let known = Group.allCases.map(\.rawValue) + TokenEvent.Name.allCases.map(\.rawValue)
        let hint = Suggestion.hint(for: text, in: known)
        let advice =
            hint.isEmpty
            ? "; write failures, renewals, logins, configuration, requests, or the name of an event." : hint
        throw GatewayProblem(.requestRefused, "kind matches no events\(advice)")
    }

    package func matches(_ entry: AuditEntry) -> Bool {
        if let client, entry.client != client { return false }
        if let route, entry.route != route { return false }
        if let request, entry.requestID != request { return false }
        if let credential, !entry.isOf(credential) { return false }
        guard (entry.id == nil) == (kind == .group(.requests)) else { return false }
        let isMerged =
            mergesWithheld && request == nil && credential == nil && entry.event == TokenEvent.Name.withheld.rawValue
        switch kind {
        case nil: return !isMerged
        case .group(.requests): return true
        case .event(let event): return entry.event == event.rawValue
        case .group(.failures): return entry.isFailed && !isMerged
        case .group(let group): return TokenEvent.Name(rawValue: entry.event).map(group.names.contains) ?? false
        }
    }
}

extension EventQuery.Group {
    /// Empty for failures, which any event can be, and for requests.
    fileprivate var names: Set<TokenEvent.Name> {
        switch self {
        case .failures, .requests: []
        case .renewals:
            [
                .acquiring, .acquired, .acquisitionFailed, .renewing, .renewed, .renewalFailed, .loaded, .imported,
                .rejected, .expired, .downscoped, .adopted,
            ]
        case .logins:
            [
                .loginRequired, .scopeMissing, .loginStarted, .loginCompleted, .loginFailed, .phantomsIssued,
                .phantomsRevoked,
            ]
        case .configuration:
            [
                .gatewayStarted, .gatewayStopped, .configLoaded, .configRefused, .operatorRequest, .locked, .unlocked,
                .keyRotating, .keyRotated, .authorityRotated, .stateBackedUp, .stateRestored, .auditRecreated,
            ]
        }
    }
}
