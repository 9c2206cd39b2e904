package import GatewayHTTP

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

    /// - Parameter value: Of the query parameter with this name; an empty one is none.
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
        throw GatewayProblem(.requestRefused, "kind names no events\(advice)")
    }

    package func matches(_ entry: AuditEntry) -> Bool {
        if let client, entry.client != client { return false }
        if let route, entry.route != route { return false }
        if let request, entry.requestID != request { return false }
        if let credential, !entry.isOf(credential) { return false }
        guard (entry.id == nil) == (kind == .group(.requests)) else { return false }
        switch kind {
        case nil, .group(.requests): return true
        case .event(let event): return entry.event == event.rawValue
        case .group(.failures): return entry.isFailed
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
        case .logins: [.loginRequired, .loginStarted, .loginCompleted, .loginFailed]
        case .configuration:
            [
                .gatewayStarted, .gatewayStopped, .configLoaded, .configRefused, .operatorRequest, .locked, .unlocked,
                .keyRotating, .keyRotated, .authorityRotated, .stateBackedUp, .stateRestored, .auditRecreated,
            ]
        }
    }
}

extension AuditEntry {
    package func isOf(_ name: String) -> Bool { credential == name || credential?.hasPrefix("\(name)[") == true }
}
