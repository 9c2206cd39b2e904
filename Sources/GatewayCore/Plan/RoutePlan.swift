/// Where requests go and what they carry.
///
/// The host chooses first (``matchHosts``, exact before wildcard), and the path is forwarded unchanged. The path
/// chooses second (``matchPath``, the longest wins), and it is stripped. A route may ask for both (``matchesAll``). A request for the
/// upstream's own host may choose by that (``matchesUpstreamHost``). Loading has refused routes that share a path; those that
/// share a host are told apart by their paths.
package struct RoutePlan: Hashable, Sendable {
    package struct TLS: Hashable, Sendable {
        /// PEM of the authorities that the upstream's certificate must come from; nil trusts the system's.
        package var caPath: String?
        /// Sent as SNI and verified; nil means the upstream's host.
        package var serverName: String?
        /// Our own certificate for mutual TLS.
        package var certificatePath: String?
        package var privateKey: Secret?
        /// One of these keys the upstream's certificate must have; empty asks for none.
        package var pins: [CertificatePin] = []

        package init(
            caPath: String? = nil,
            serverName: String? = nil,
            certificatePath: String? = nil,
            privateKey: Secret? = nil
        ) {
            self.caPath = caPath
            self.serverName = serverName
            self.certificatePath = certificatePath
            self.privateKey = privateKey
        }
    }

    /// Header fields of the request that the route has a say in.
    package struct Headers: Hashable, Sendable {
        /// Sent with every request, in the place of what the client sends under the name.
        package var set: [Injection.Field]
        /// Never forwarded.
        package var remove: [String]
        package var forwarded: ForwardedPolicy

        package init(set: [Injection.Field] = [], remove: [String] = [], forwarded: ForwardedPolicy = .standard) {
            self.set = set
            self.remove = remove
            self.forwarded = forwarded
        }
    }

    /// How long the route waits for its upstream, where that is not what ``Limits`` says for all routes.
    package struct Timeouts: Hashable, Sendable {
        /// From the last byte of the request to the head of the response.
        package var response: Duration?
        /// The longest pause within a response or a tunnel.
        package var idle: Duration?

        package init(response: Duration? = nil, idle: Duration? = nil) {
            self.response = response
            self.idle = idle
        }
    }

    package struct Allow: Hashable, Sendable {
        /// Upper case; empty means every method.
        package var methods: [String]
        package var path: PathPattern

        package init(methods: [String], path: PathPattern) {
            self.methods = methods
            self.path = path
        }

        /// `GET, POST /2.0/**`
        package var description: String {
            (methods.isEmpty ? "any method" : methods.joined(separator: ", ")) + " \(path)"
        }
    }

    /// The user for whom the upstream is told to act.
    package struct ActingUser: Hashable, Sendable {
        package var id: String
        /// What names the user on a request.
        package var field: UserField

        package init(id: String, field: UserField) {
            self.id = id
            self.field = field
        }
    }

    package var name: String
    package var upstream: Origin
    /// What is put before the forwarded path: empty, or `/v2` without a slash at the end.
    package var upstreamPath: String
    /// Begins with `/`, has no slash at the end unless it is the root; stripped before forwarding.
    package var matchPath: String
    /// Lower case, exact or `*.example.com`.
    package var matchHosts: [String]
    /// A request has to have one of the hosts and the path; otherwise one of both finds the route. The path is stripped.
    package var matchesAll: Bool
    /// Whether a request for the upstream's own host may find this route, in absolute form or behind a CONNECT. False where a host
    /// that another route has is that host.
    package var matchesUpstreamHost: Bool
    /// With what the path of such a request begins: ``upstreamPath``, or longer.
    package var upstreamMatchPath: String
    /// Of routes that such a request may mean (``SharedUpstream``) this one is.
    package var isDefault: Bool
    /// The index into ``Plan/credentials``; nil forwards without authentication.
    package var credential: Int?
    /// Sent with every request, in the place of what the client sends in that field; nil sends none.
    package var asUser: ActingUser?
    package var headers: Headers
    package var cookies: CookiePolicy
    /// Whether the upstream gets our `Via`; otherwise it gets a field of our own by which loops are found.
    package var sendsVia = true
    /// nil rewrites links where the request finds the route by its path.
    package var rewritesLinks: Bool?
    /// Clients may authenticate their connection to the upstream (``ConnectionAuthentication``).
    ///
    /// An upstream connection then belongs to one client connection and is never pooled.
    package var allowsConnectionAuth: Bool
    /// Empty allows everything.
    package var allow: [Allow]
    /// Where the credential's own requests to its authority go, as far as this route leads there: only a rule that names
    /// such a path lets clients reach it.
    package var endpoints: [AuthorityEndpoint]
    /// nil lets in every client that the listener lets in.
    package var clients: [String]?
    /// The engines that are handed the credential of the route.
    package var authz: [String] = []
    /// Browser origins that may call, as `Origin` spells them; nil takes those of ``AccessPlan``.
    package var allowedOrigins: [String]?
    package var tls: TLS
    package var upstreamProtocol: UpstreamProtocol
    package var timeouts: Timeouts
    /// Shows whose credential the route sends; nil asks nothing.
    package var whoami: WhoAmI?
    package var span: SourceSpan

    /// - Parameter cookies: nil takes the default of such a route.
    package init(
        name: String,
        upstream: Origin,
        upstreamPath: String,
        matchPath: String,
        matchHosts: [String],
        matchesAll: Bool = false,
        matchesUpstreamHost: Bool = true,
        upstreamMatchPath: String? = nil,
        isDefault: Bool = false,
        credential: Int?,
        asUser: ActingUser? = nil,
        headers: Headers = Headers(),
        cookies: CookiePolicy? = nil,
        rewritesLinks: Bool? = nil,
        allowsConnectionAuth: Bool = false,
        allow: [Allow] = [],
        endpoints: [AuthorityEndpoint] = [],
        clients: [String]? = nil,
        allowedOrigins: [String]? = nil,
        tls: TLS = TLS(),
        upstreamProtocol: UpstreamProtocol = .http1,
        timeouts: Timeouts = Timeouts(),
        span: SourceSpan
    ) {
        self.name = name
        self.upstream = upstream
        self.upstreamPath = upstreamPath
        self.matchPath = matchPath
        self.matchHosts = matchHosts
        self.matchesAll = matchesAll
        self.matchesUpstreamHost = matchesUpstreamHost
        self.upstreamMatchPath = upstreamMatchPath ?? upstreamPath
        self.isDefault = isDefault
        self.credential = credential
        self.asUser = asUser
        self.headers = headers
        self.cookies = cookies ?? .standard(injectsCredential: credential != nil)
        self.rewritesLinks = rewritesLinks
        self.allowsConnectionAuth = allowsConnectionAuth
        self.allow = allow
        self.endpoints = endpoints
        self.clients = clients
        self.allowedOrigins = allowedOrigins
        self.tls = tls
        self.upstreamProtocol = upstreamProtocol
        self.timeouts = timeouts
        self.span = span
    }
}

extension AccessPlan {
    /// Browser origins that may call the route.
    package func allowedOrigins(on route: RoutePlan) -> [String] { route.allowedOrigins ?? allowedOrigins }
}

extension Limits {
    /// How long the upstream of a route with these timeouts may take to begin its response.
    package func responseTimeout(of route: RoutePlan.Timeouts) -> Duration { route.response ?? responseTimeout }

    /// How long that upstream may pause within a response or a tunnel.
    package func responsePause(of route: RoutePlan.Timeouts) -> Duration { route.idle ?? responseTimeout }
}

extension RoutePlan {
    /// Whether the client's own `Authorization` goes upstream.
    package var forwardsAuthorization: Bool {
        credential == nil && !headers.remove.contains { FieldSyntax.slot($0) == "authorization" }
    }
}
