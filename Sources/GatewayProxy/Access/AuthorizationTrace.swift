import GatewayHTTP

/// Why a request was admitted or refused: the results of the checks, in order.
///
/// Somebody who only wants to know makes one. A request that is served has none, and pays nothing for it.
package struct AuthorizationTrace: Sendable {
    package enum Reason: Hashable, Sendable {
        /// The target or `Host` names the upstream of a route, by its path, its host or itself.
        case routeFound(name: String, by: String)
        case routeNotFound
        case hostRefused
        case originRefused
        /// A page of another origin may call: one that is listed.
        case originAllowed(String)
        /// The listener's own origin, from a known client.
        case ownOrigin
        case preflightAnswered
        /// - Parameter name: nil where no client is known.
        case client(name: String?, presentedToken: Bool)
        case clientRequired(by: String)
        case clientAllowed(onRoute: String)
        case pathRefused
        /// - Parameter number: The number of the rule in `allow`, from 1.
        case allowedByRule(number: Int)
        case notAllowed
        case methodOverrideRefused
        /// - Parameters:
        ///   - byRule: The number of the rule that names the tools, from 1.
        ///   - mayCall: The request may carry a call.
        case toolsChecked(byRule: Int, mayCall: Bool)
        case toolRefused
        /// The request waits for an operator once its body has come.
        case approvalNeeded
        case approvalImpossible
        case authorityEndpointRefused
        case connectionAuthRefused
        /// The token of a program of `exec` would reach the upstream.
        case runTokenRefused
        /// A phantom is missing, unknown or misplaced (`capture`).
        case phantomRefused
        case loopRefused
        case subjectNamed(String)
        case subjectRefused
        case admitted
    }

    package private(set) var reasons: [Reason] = []
    /// Why each of the other routes does not serve the request.
    private(set) var otherRoutes: [RouteLoss] = []
    /// What each rule of the route misses, if none of them allows the request.
    var ruleMisses: [RuleMiss] = []
    /// The client as which the request is judged, whatever token it presents. It is never sent then.
    let assumedClient: String?
    package let routes: [RoutePlan]

    /// - Parameter routes: All of the configuration, to say why the others lost.
    package init(routes: [RoutePlan] = [], assuming client: String? = nil) {
        self.routes = routes
        assumedClient = client
    }

    mutating func add(_ reason: Reason) { reasons.append(reason) }

    /// Finds out why the other routes lost.
    mutating func compare(
        _ match: RouteTable.Match?,
        for head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority
    ) {
        let isAbsolute = head.form == .absolute
        let question = RouteQuestion(
            host: authority.host,
            port: authority.port,
            path: head.path,
            scheme: isAbsolute ? (head.asksForTLS(bytes) ? .https : .http) : nil
        )
        otherRoutes = RouteLoss.all(of: routes, but: match, asked: question, bytes)
    }
}

/// What a rule of `allow` lacks that does not allow a request.
struct RuleMiss: Hashable, Sendable {
    /// The number of the rule, from 1.
    let number: Int
    /// The rule as the configuration has it.
    let rule: String
    let takesMethod: Bool
    let takesPath: Bool
}
