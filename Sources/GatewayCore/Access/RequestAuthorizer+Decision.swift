/// What becomes of a request.
extension RequestAuthorizer {
    /// Handed on, never copied: there is one for every request.
    package enum Decision: ~Copyable, Sendable {
        case admitted(Admitted)
        case refused(Refusal)
        case preflight(Preflight)
        /// No route leads to the server, and the request passes without a credential.
        case unrouted(UnroutedRequest)
    }

    package struct Admitted: Sendable {
        package let match: RouteTable.Match
        /// nil for a server that no route leads to.
        package var route: Int? { match == .unrouted ? nil : match.route }
        package let client: String?
        /// The client authenticated to us with `Authorization`, so it must not go upstream.
        package let stripsAuthorization: Bool
        /// Of the listener that the request came to.
        package let reach: ConnectionContext.Reach
        /// Where the route leaves the choice to the request; nil otherwise.
        package let chosen: (any CredentialSource)?
        /// What the response says to the browser of a page; nil where no page of another origin may call the route.
        package let crossOrigin: CrossOriginGrant?
        /// Whether a later refusal may name routes, credentials and strategies (``NameDisclosure``).
        package let disclosesNames: Bool
    }

    /// A class, so that a decision is no larger than what is admitted.
    package final class Refusal: Sendable {
        package let problem: GatewayProblem
        package let route: Int?
        package let client: String?
        /// Whether the answer may name routes, credentials and strategies (``NameDisclosure``).
        ///
        /// If not, it has ``GatewayProblem/withoutNames``. The log has the whole problem.
        package let disclosesNames: Bool

        init(problem: GatewayProblem, route: Int?, client: String?, disclosesNames: Bool) {
            self.problem = problem
            self.route = route
            self.client = client
            self.disclosesNames = disclosesNames
        }
    }
}
