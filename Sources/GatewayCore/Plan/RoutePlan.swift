import FoundationEssentials

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
    /// What the path of such a request begins with: ``upstreamPath``, or longer.
    package var upstreamMatchPath: String
    /// Whether it is taken among several routes that such a request may mean (``SharedUpstream``).
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

/// The SHA-256 of the public key (SubjectPublicKeyInfo) that a server's certificate must have (RFC 7469 §2.4).
package struct CertificatePin: Hashable, Sendable, CustomStringConvertible {
    package let digest: [UInt8]

    package init(digest: [UInt8]) { self.digest = digest }

    /// Reads `sha256/BASE64`, and `sha256//BASE64` as curl writes it; nil when it is anything else.
    package init?(_ text: String) {
        for prefix in ["sha256//", "sha256/"] where text.hasPrefix(prefix) {
            // The standard alphabet begins with a slash once in 64 times, too: the length tells.
            let encoded = String(text.dropFirst(prefix.count))
            guard encoded.utf8.count == 44, let data = Data(base64Encoded: encoded), data.count == 32 else { continue }
            self.init(digest: Array(data))
            return
        }
        return nil
    }

    package var description: String { "sha256/\(Base64.encode(digest))" }
}

/// What becomes of cookies on a route: `Cookie` in requests and `Set-Cookie` in answers (RFC 6265).
///
/// A cookie that an upstream sets on an authenticated answer is a session of the service account. With it a client could
/// go on past `allow`, a lock and the audit log.
package enum CookiePolicy: String, CaseIterable, Sendable {
    /// Neither the client's cookies nor the upstream's are forwarded.
    case drop
    /// Both are forwarded as they came. Apps for browsers need this.
    case pass

    /// Without a setting: dropped where the route injects a credential.
    package static func standard(injectsCredential: Bool) -> CookiePolicy { injectsCredential ? .drop : .pass }

    /// Whether a field of this kind is dropped, in a request as well as in an answer.
    @inline(__always)
    package func drops(_ kind: FieldKind) -> Bool { self == .drop && (kind == .cookie || kind == .setCookie) }

    /// The value of `Gateway-Note` in an answer that lost a `Set-Cookie`.
    package static let note = "cookies-dropped"

    /// What the log says once for each route, when the first answer loses a `Set-Cookie`.
    package static func warning(route: String) -> String {
        "The upstream of the route \(route) set a cookie, and the gateway dropped it."
            + " If clients need the upstream's cookies, set routes.\(route).cookies: pass."
    }
}

/// What becomes of the fields that tell an upstream where a request came from: `Forwarded` (RFC 7239) and `X-Forwarded-*`.
package enum ForwardedPolicy: String, CaseIterable, Sendable {
    /// What the client sends is forwarded, nothing is added.
    case pass
    /// Nothing of it is forwarded: the upstream learns neither who asked nor through what.
    case remove
    /// The gateway's own take the place of what the client sends.
    case replace
    /// The gateway's own follow what the client sends, for a gateway behind a proxy that is trusted.
    case append

    /// In lower case.
    package static let names = [
        "forwarded", "x-forwarded-by", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix",
        "x-forwarded-proto", "x-forwarded-protocol", "x-forwarded-scheme", "x-forwarded-server", "x-forwarded-ssl",
        "x-original-forwarded-for", "x-real-ip",
    ]

    /// Without a setting: an upstream may trust what a client says of itself there.
    package static let standard = ForwardedPolicy.remove

    package var dropsTheClients: Bool { self == .remove || self == .replace }
    package var addsOurs: Bool { self == .replace || self == .append }

    /// The lines that the gateway adds, each with its CRLF.
    ///
    /// `X-Forwarded-Host` and `-Proto` are no lists: where the client's stay, they say what the first proxy saw.
    ///
    /// - Parameters:
    ///   - client: The address that the connection came from; nil on a unix socket.
    ///   - host: As the client named it.
    package func lines(client: String?, host: String, isTLS: Bool) -> String {
        let client = client.map(Self.withoutMapping)
        let scheme = isTLS ? "https" : "http"
        let node = client.map { $0.contains(":") ? "\"[\($0)]\"" : $0 } ?? "unknown"
        // Requests of HTTP/1.0 may name none.
        let named = host.isEmpty ? "" : "host=\"\(host)\";"
        var lines = "Forwarded: for=\(node);\(named)proto=\(scheme)\r\n"
        if let client { lines += "X-Forwarded-For: \(client)\r\n" }
        guard self == .replace else { return lines }
        if !host.isEmpty { lines += "X-Forwarded-Host: \(host)\r\n" }
        return lines + "X-Forwarded-Proto: \(scheme)\r\n"
    }

    /// A client of IPv4 on a listener of both versions has an address like `::ffff:192.0.2.7`.
    private static func withoutMapping(_ address: String) -> String {
        address.hasPrefix("::ffff:") && address.contains(".") ? String(address.dropFirst(7)) : address
    }
}
