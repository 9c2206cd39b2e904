package import GatewayEvents
package import GatewayHTTP
package import GatewayProxy
package import GatewayTokens

/// What the admin listener shows and does, given as closures so that it knows none of its neighbours.
package struct AdminOptions: Sendable {
    private let makeControl: @Sendable () -> any OperationRunner
    /// nil: this process offers no logins.
    package var logins: (any LoginControl)?
    /// nil: no token is vended here.
    package var vending: (any VendingControl)?
    /// nil: no request is explained here.
    package var explanations: (any ExplanationControl)?
    /// The admin token of the state directory.
    package var token: Secret
    /// The users that the present configuration names.
    package var users: @Sendable () -> [AdminUser] = { [] }
    package var sha256: @Sendable ([UInt8]) -> [UInt8] = { $0 }
    /// Records what a user does, before it is done; a problem where it must not be done without.
    package typealias Record = @Sendable (AdminAction) async -> GatewayProblem?
    package var record: Record = { _ in nil }
    /// Whether a proof is needed to see something, too.
    package var requiresToken = false
    /// The metrics in Prometheus' text format.
    package var metrics: @Sendable () async -> String
    /// The certificates of the local authority; nil without one, and a failure where its file cannot be read.
    package var localAuthorityPEM: @Sendable () async -> Result<String?, GatewayProblem> = { .success(nil) }
    /// The newest events, and those that come.
    package var broadcaster = EventBroadcaster()
    /// Whether this listener feeds the broadcaster: one of the listeners that share it does.
    package var feedsBroadcaster = true
    /// What the audit log held before the start; asked once.
    package var past: @Sendable () async -> EventBroadcaster.Past? = { nil }
    /// The last requests, which are in memory only.
    package var requests: EventBroadcaster.Requests = { _ in ([], "") }
    /// Rows of the audit log that are not in memory any more; nil when it does not answer in time.
    package var olderEvents: @Sendable (EventQuery, _ since: Int64?, _ limit: Int) async -> RecentEvents.Page? = {
        _,
        _,
        _ in nil
    }
    /// The present time.
    package var now: @Sendable () -> UnixTime

    /// Take it once for each answer, which then speaks of one plan.
    package var control: any OperationRunner { makeControl() }
    /// Who may do what by the present configuration.
    var authorization: AdminAuthorization {
        let authorizer = AdminAuthorizer(adminToken: token, users: users(), sha256: sha256)
        return AdminAuthorization(authorizer: authorizer, record: record)
    }

    /// - Parameter control: Evaluated for each answer.
    package init(
        control: @autoclosure @escaping @Sendable () -> any OperationRunner,
        logins: (any LoginControl)? = nil,
        vending: (any VendingControl)? = nil,
        explanations: (any ExplanationControl)? = nil,
        token: Secret,
        metrics: @escaping @Sendable () async -> String,
        now: @escaping @Sendable () -> UnixTime
    ) {
        makeControl = control
        self.logins = logins
        self.vending = vending
        self.explanations = explanations
        self.token = token
        self.metrics = metrics
        self.now = now
    }

    /// Events from memory, and from the audit log if memory does not reach back far enough.
    func events(_ query: EventQuery, since id: Int64?, limit: Int) async -> RecentEvents.Page {
        if query.kind == .group(.requests) {
            let found = requests(nil).entries.reversed().filter(query.matches)
            return RecentEvents.Page(events: Array(found.prefix(limit)), isComplete: false)
        }
        let page = broadcaster.page(query, since: id, limit: limit)
        guard !page.isComplete, page.events.count < limit else { return page }
        return await olderEvents(query, id, limit) ?? page
    }
}

/// What a user of the admin listener asks for, as the audit log tells of it.
package struct AdminAction: Hashable, Sendable {
    package let user: String
    package let role: AdminRole
    package let method: String
    package let path: String
    /// Whether it may take a right away. It is then done even if it cannot be recorded.
    package let withdraws: Bool
}
