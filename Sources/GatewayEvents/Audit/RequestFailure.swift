package import GatewayHTTP

/// What is kept of a request that failed, besides its record. A class: a request that succeeds has room for a reference only.
package final class RequestFailure: Hashable, Sendable {
    package let reason: FailureReason
    /// What happened and what to do; nil where the reason and the status say it.
    package let explanation: String?
    /// A command for the person who runs the gateway.
    package let command: String?
    /// What the authority or the upstream answered.
    package let cause: GatewayProblem.Cause?
    /// The response had begun, so it was cut.
    package let isCut: Bool
    /// The one that the request was to have, also where there was none to inject.
    package let credential: String?
    package let place: RequestPlace

    package init(
        reason: FailureReason,
        explanation: String? = nil,
        command: String? = nil,
        cause: GatewayProblem.Cause? = nil,
        isCut: Bool = false,
        credential: String? = nil,
        place: RequestPlace
    ) {
        self.reason = reason
        self.explanation = explanation
        self.command = command
        self.cause = cause
        self.isCut = isCut
        self.credential = credential
        self.place = place
    }

    package static func == (lhs: RequestFailure, rhs: RequestFailure) -> Bool {
        lhs.reason == rhs.reason && lhs.explanation == rhs.explanation && lhs.command == rhs.command
            && lhs.cause == rhs.cause
            && lhs.isCut == rhs.isCut && lhs.credential == rhs.credential && lhs.place == rhs.place
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(reason)
        hasher.combine(place)
    }

    package convenience init(
        _ problem: GatewayProblem,
        isCut: Bool = false,
        credential: String? = nil,
        place: RequestPlace
    ) {
        self.init(
            reason: FailureReason(problem),
            explanation: problem.detail,
            command: problem.command,
            cause: problem.cause,
            isCut: isCut,
            credential: credential,
            place: place
        )
    }
}

/// Where a request came from, and what it asked for. Worked out for those that fail only.
package struct RequestPlace: Hashable, Sendable {
    /// The client's address, or `unix`.
    package let peer: String
    /// As the client spelled it, whatever it is. Escape it before it is shown.
    package let host: String
    /// With its identifiers left out (``PathTemplate``); empty before the head was read.
    package let path: String

    package init(peer: String, host: String = "", path: String = "") {
        self.peer = peer
        self.host = host
        self.path = path
    }
}
