package import GatewayCore

/// What the admin listener shows and does, given as closures so that it knows none of its neighbours.
package struct AdminOptions: Sendable {
    package var version: String
    private let makeControl: @Sendable () -> any GatewayControl
    /// nil: this process offers no logins.
    package var logins: (any LoginControl)?
    /// nil: no token is vended here.
    package var vending: (any VendingControl)?
    /// nil: no request is explained here.
    package var explanations: (any ExplanationControl)?
    /// What a request must carry as `Authorization: Bearer` to change something.
    package var token: Secret
    /// The metrics in Prometheus' text format.
    package var metrics: @Sendable () async -> String
    /// The newest token events, newest first.
    package var recentEvents: @Sendable () async -> [AdminEvent]

    /// Take it once for each answer, which then speaks of one plan.
    package var control: any GatewayControl { makeControl() }
    var authorization: AdminAuthorization { AdminAuthorization(token: token) }

    /// - Parameter control: Evaluated for each answer.
    package init(
        version: String,
        control: @autoclosure @escaping @Sendable () -> any GatewayControl,
        logins: (any LoginControl)? = nil,
        vending: (any VendingControl)? = nil,
        explanations: (any ExplanationControl)? = nil,
        token: Secret,
        metrics: @escaping @Sendable () async -> String,
        recentEvents: @escaping @Sendable () async -> [AdminEvent] = { [] }
    ) {
        self.version = version
        makeControl = control
        self.logins = logins
        self.vending = vending
        self.explanations = explanations
        self.token = token
        self.metrics = metrics
        self.recentEvents = recentEvents
    }
}

/// One row of the audit log as the status page shows it.
package struct AdminEvent: Hashable, Sendable {
    /// RFC 3339.
    package var at: String
    package var event: String
    package var credential: String?
    package var generation: Int?
    package var isFailure: Bool
    package var note: String?

    package init(
        at: String,
        event: String,
        credential: String?,
        generation: Int?,
        isFailure: Bool,
        note: String? = nil
    ) {
        self.at = at
        self.event = event
        self.credential = credential
        self.generation = generation
        self.isFailure = isFailure
        self.note = note
    }
}
