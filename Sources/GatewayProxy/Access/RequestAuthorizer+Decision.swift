package import GatewayHTTP
package import GatewayTokens

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
        let stripsAuthorization: Bool
        /// The reach of the listener that the request came to.
        package let reach: ConnectionContext.Reach
        /// Where the route leaves the choice to the request; nil otherwise.
        package let chosen: (any CredentialSource)?
        /// What the response says to the browser of a page; nil where no page of another origin may call the route.
        let crossOrigin: CrossOriginGrant?
        /// Whether a later refusal may name routes, credentials and strategies (``NameDisclosure``).
        let disclosesNames: Bool
    }

    /// A class, so that a decision is no larger than what is admitted.
    package final class Refusal: Sendable {
        package let problem: GatewayProblem
        package let route: Int?
        package let client: String?
        /// Whether the answer may name routes, credentials and strategies (``NameDisclosure``).
        ///
        /// If not, it has ``GatewayProblem/withoutNames``. The log has the whole problem.
        let disclosesNames: Bool

        init(problem: GatewayProblem, route: Int?, client: String?, disclosesNames: Bool) {
            self.problem = problem
            self.route = route
            self.client = client
            self.disclosesNames = disclosesNames
        }
    }

    /// What becomes of a CONNECT (RFC 9110 section 9.3.6).
    enum ConnectDecision: Sendable {
        /// The gateway answers in place of that server.
        case intercept(InterceptedOrigin)
        /// A plain route leads to the server, and ``TunnelOpening`` says what becomes of the connection.
        ///
        /// - Parameter tunnel: nil where bytes may not pass as they are.
        case peek(InterceptedOrigin, tunnel: TunnelDestination?)
        /// Bytes pass as they are, if the server has an address that may be dialled.
        case tunnel(TunnelDestination)
        case refused(Refusal)
    }
}

/// A plain request with an absolute target, for a server that no route leads to (`connect.unrouted: tunnel`).
///
/// It passes without a credential. What the client has sent for that server stays, such as `Authorization`. What proves the client to
/// the gateway does not.
///
/// A class, so that a decision is no larger than what is admitted.
package final class UnroutedRequest: Sendable {
    package let server: TunnelDestination
    package let admitted: RequestAuthorizer.Admitted

    init(to server: TunnelDestination, _ admitted: RequestAuthorizer.Admitted) {
        self.server = server
        self.admitted = admitted
    }

    /// The answer to a client that asks in HTTP/2. Clients ask their proxy in HTTP/1.1 for plain URLs.
    var refusalInHTTP2: RequestAuthorizer.Refusal {
        RequestAuthorizer.Refusal(
            problem: GatewayProblem(.misdirected, "Servers without a route are reached by HTTP/1.1 alone."),
            route: nil,
            client: admitted.client,
            disclosesNames: admitted.disclosesNames
        )
    }
}

extension RouteTable.Match {
    /// The path is forwarded as it came. There is no such route.
    static var unrouted: Self { .upstream(Int.max) }
}

/// Who is told names from the configuration: of routes, credentials, strategies, upstreams and commands.
enum NameDisclosure {
    /// Names are for known clients.
    ///
    /// If no client is configured, they are for everyone who can reach a local listener: loopback, or a unix socket, whose
    /// peer the kernel has let in. An engine may pass an answer on to anybody.
    ///
    /// - Parameters:
    ///   - client: The one that sent the request; nil where it is not known.
    ///   - hasClients: `access.clients` names at least one.
    static func isAllowed(
        to client: String?,
        on reach: ConnectionContext.Reach,
        hasClients: Bool
    ) -> Bool {
        client != nil || (!hasClients && reach != .network && reach != .engine)
    }
}
