/// Why a request was admitted or refused: the results of the checks, in order.
package struct AuthorizationTrace: Sendable {
    package enum Reason: Hashable, Sendable {
        /// The target or `Host` names the upstream of a route, by its path, its host or itself.
        case routeFound(name: String, by: String)
        case routeNotFound
        case hostRefused
        case originRefused
        /// - Parameter name: nil where no client is known.
        case client(name: String?, presentedToken: Bool)
        case clientRequired(by: String)
        case clientAllowed(onRoute: String)
        case pathRefused
        /// - Parameter number: Of the rule in `allow`, from 1.
        case allowedByRule(number: Int)
        case notAllowed
        case methodOverrideRefused
        case authorityEndpointRefused
        case connectionAuthRefused
        case loopRefused
        case subjectRefused
        case admitted
    }

    package private(set) var reasons: [Reason] = []

    package init() {}

    mutating func add(_ reason: Reason) { reasons.append(reason) }
}
