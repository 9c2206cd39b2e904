import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens

/// What the admin listener shows and does, given as closures so that it knows none of its neighbours.
struct AdminOptions: Sendable {
    private let makeControl: @Sendable () -> any OperationRunner
    /// nil: this process offers no logins.
    var logins: (any LoginControl)?
    /// nil: no token is vended here.
    var vending: (any VendingControl)?
    /// nil: no request is explained here.
    var explanations: (any ExplanationControl)?
    /// The admin token of the state directory.
    var token: Secret
    /// The users that the present configuration names.
    var users: @Sendable () -> [AdminUser] = { [] }
    var sha256: @Sendable ([UInt8]) -> [UInt8] = { $0 }
    /// Records what a user does, before it is done; a problem where it must not be done without.
    typealias Record = @Sendable (AdminAction) async -> GatewayProblem?
    var record: Record = { _ in nil }
    /// Told of each request that is refused for its sender: with the method, the path, and the user where one is known.
    typealias Denied = @Sendable (_ method: String, _ path: String, _ user: String?, ProblemKind) -> Void
    var denied: Denied = { _, _, _, _ in }
    /// Whether a proof is needed to see something, too.
    var requiresToken = false
    /// The metrics in Prometheus' text format.
    var metrics: @Sendable () async -> String
    /// The certificates of the local CA; nil without one, and a failure where its file cannot be read.
    var localAuthorityPEM: @Sendable () async -> Result<String?, GatewayProblem> = { .success(nil) }
    /// The newest events, and those that come.
    var broadcaster = EventBroadcaster()
    /// Whether this listener feeds the broadcaster: one of the listeners that share it does.
    var feedsBroadcaster = true
    /// What the audit log held before the start; asked once.
    var past: @Sendable () async -> EventBroadcaster.Past? = { nil }
    /// The last requests, which are in memory only.
    var requests: EventBroadcaster.Requests = { _ in ([], "") }
    /// Rows of the audit log that are not in memory any more; nil when it does not answer in time.
    var olderEvents: @Sendable (EventQuery, _ since: Int64?, _ limit: Int) async -> RecentEvents.Page? = {
        _,
        _,
        _ in nil
    }
    /// The present time.
    var now: @Sendable () -> UnixTime

    /// Take it once for each answer, which then speaks of one plan.
    var control: any OperationRunner { makeControl() }
    /// Who may do what by the present configuration.
    var authorization: AdminAuthorization {
        let authorizer = AdminAuthorizer(adminToken: token, users: users(), sha256: sha256)
        return AdminAuthorization(authorizer: authorizer, record: record, denied: denied)
    }

    /// - Parameter control: Evaluated for each answer.
    init(
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
struct AdminAction: Hashable, Sendable {
    let user: String
    let role: AdminRole
    let method: String
    let path: String
    /// Whether it may take a right away. It is then done even if it cannot be recorded.
    let withdraws: Bool
}
