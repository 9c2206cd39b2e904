import FoundationEssentials
package import GatewayConfiguration
package import GatewayHTTP
package import GatewayTokens

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
    }

    /// Header fields of the request that the route has a say in.
    package struct Headers: Hashable, Sendable {
        /// Sent with every request, instead of what the client sends under the name.
        package var set: [Injection.Field] = []
        /// Never forwarded.
        package var remove: [String] = []
        package var forwarded: ForwardedPolicy = .standard
    }

    /// How long the route waits for its upstream, where that is not what ``Limits`` says for all routes.
    package struct Timeouts: Hashable, Sendable {
        /// From the last byte of the request to the head of the response.
        package var response: Duration?
        /// The longest pause within a response or a tunnel.
        package var idle: Duration?
    }

    package struct Allow: Hashable, Sendable {
        /// Upper case; empty means every method.
        package var methods: [String]
        package var path: PathPattern
        /// The calls of MCP that the rule takes; nil does not look at them.
        package var tools: ToolRule?
        /// An operator has to approve each request; with ``tools``, each call (`approve`).
        package var needsApproval: Bool

        package init(methods: [String], path: PathPattern, tools: ToolRule? = nil, needsApproval: Bool = false) {
            self.methods = methods
            self.path = path
            self.tools = tools
            self.needsApproval = needsApproval
        }

        /// `GET, POST /2.0/**`, or `any method /mcp, tools search, read_*, approve`
        package var description: String {
            (methods.isEmpty ? "any method" : methods.joined(separator: ", ")) + " \(path)"
                + (tools.map { ", \($0.description)" } ?? "") + (needsApproval ? ", approve" : "")
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
    var matchesUpstreamHost: Bool
    /// What the path of such a request begins with: ``upstreamPath``, or longer.
    var upstreamMatchPath: String
    /// Whether it is taken among several routes that such a request may mean (``SharedUpstream``).
    var isDefault: Bool
    /// The index into ``Plan/credentials``; nil forwards without authentication.
    package var credential: Int?
    /// Sent with every request, instead of what the client sends in that field; nil sends none.
    package var asUser: ActingUser?
    package var headers: Headers
    package var cookies: CookiePolicy
    /// Whether the upstream gets our `Via`; otherwise it gets a field of our own by which loops are found.
    package var sendsVia = true
    /// nil rewrites links where the request finds the route by its path.
    var rewritesLinks: Bool?
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
    /// The upstream is reached through it; nil for directly.
    package var proxy: ParentProxy?
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

extension RoutePlan {
    /// Some rule is about MCP tools.
    var namesTools: Bool { allow.contains { $0.tools != nil } }
}

extension RoutePlan.Timeouts: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) { Self.keys.add(self, to: &bytes) }

    package static let keys = Keys(RoutePlan.Timeouts()) {
        $0("response", \.response, .duration(Limits.responseTimes), default: "limits.response_timeout", example: "10m")
            .means(
                "Maximum time from the end of a request to the beginning of its response. After that, the client gets 504."
            )
        $0("idle", \.idle, .duration(Limits.responseTimes), default: "limits.response_timeout", example: "2m")
            .means("Longest pause within a response, or within a tunnel such as a WebSocket. After that, it is cut.")
    }
}

/// The keys of a route.
extension RoutePlan {
    /// A route without an upstream, to be filled in.
    private static let blank = RoutePlan(
        name: "",
        upstream: Origin(scheme: .https, host: "", port: 443),
        upstreamPath: "",
        matchPath: "/",
        matchHosts: [],
        credential: nil,
        span: SourceSpan(file: 0, line: 1, column: 1)
    )

    /// In the order in which the plan shows them. The decoder reads those without a property.
    ///
    /// The digest of a route leaves out the credential, which has one of its own, and the place in the file.
    package static let keys = Keys(blank) {
        $0("upstream", type: "a URL", example: "https://api.example.com/v2")
            .covers { [$0.upstream, $0.upstreamPath] }
            .shows("upstream", texts: { [$0.text.hasPrefix("http://") ? "\($0.text) (plaintext)" : $0.text] }) {
                .text("\($0.upstream)\($0.upstreamPath)")
            }
            .showsInJSON("plaintext") { .flag($0.upstream.scheme == .http) }
            .means("Where the requests go: scheme, host, and optionally port and path.")
        $0(
            "match",
            default: "path /NAME and host NAME.localhost",
            example: "path: /reports\nhosts: [reports.localhost]"
        )
        .covers {
            [
                $0.matchPath, $0.matchHosts, $0.matchesAll, $0.matchesUpstreamHost, $0.upstreamMatchPath, $0.isDefault,
            ]
        }
        .shows("path") { .text($0.matchPath) }
        .shows("hosts") { .texts($0.matchHosts) }
        // Whether the upstream's own host finds the route in absolute form; other routes have a say in it.
        .showsInJSON("absolute_form") { .flag($0.matchesUpstreamHost) }
        .shows("matches_all", as: "match.all") { $0.matchesAll ? .flag(true) : nil }
        .shows("upstream_path", as: "match.upstream_path") {
            $0.upstreamMatchPath == $0.upstreamPath ? nil : .text($0.upstreamMatchPath)
        }
        .shows("is_default", as: "match.default") { $0.isDefault ? .flag(true) : nil }
        .means("Which requests the route takes.")
        $0("auth", type: "a name, or a mapping", example: "strategy: bearer\ntoken: {env: API_TOKEN}")
            .covers { [$0.asUser?.id, $0.endpoints.map(\.origin), $0.endpoints.map(\.path)] }
            // The whole plan knows its name.
            .shows("credential", orElse: "none") { _ in nil }
            .shows("as_user") { $0.asUser.map { .text($0.id) } }
            .means("The credential: a name in credentials, a strategy written here, or none.")
        $0("headers", example: "set: {X-Tenant: acme}\nremove: [X-Debug]")
            .covers { [$0.headers.set, $0.headers.remove, $0.headers.forwarded.rawValue] }
            .shows("headers", members: ["set", "remove", "forwarded"]) { $0.headers.shown }
            .means("Header fields to set on requests or to remove from them.")
        $0("cookies", default: "drop with a credential, pass with auth: none", example: "pass")
            .covers { [$0.cookies.rawValue] }
            .shows("cookies") { .text($0.cookies.rawValue) }
            .means("Whether Cookie and Set-Cookie are forwarded.")
        $0("rewrite", example: "{links: false}")
            .covers { [$0.rewritesLinks] }
            .shows("rewrites_links", as: "rewrite.links") { $0.rewritesLinks.map { .flag($0) } }
            .means("Which URLs of the upstream become URLs of the gateway.")
        $0("connection_auth", \.allowsConnectionAuth, .flag, example: "true")
            .shows("connection_auth", texts: { $0 == .flag(true) ? ["true"] : [] }) { .flag($0.allowsConnectionAuth) }
            .means("Lets clients authenticate their connection with NTLM or Negotiate. For routes with auth: none.")
        $0("via", \.sendsVia, .flag, example: "false")
            .shows("via") { $0.sendsVia ? nil : .flag(false) }
            .means(
                "Whether to send Via. Set false for upstreams such as nginx that then do not compress; the gateway detects loops by Gateway-Loop instead."
            )
        $0("protocol", \.upstreamProtocol, .choice, example: "auto")
            .shows("protocol") { $0.upstreamProtocol == .http1 ? nil : .text($0.upstreamProtocol.rawValue) }
            .means(
                "The HTTP version to use with the upstream. auto uses HTTP/2 if the upstream offers it in "
                    + "the TLS handshake."
            )
        $0("timeouts", example: "{response: 10m, idle: 2m}")
            .covers { [$0.timeouts] }
            .shows("timeouts", members: Timeouts.keys.names) {
                $0.timeouts == Timeouts() ? nil : Timeouts.keys.texts(of: $0.timeouts).mapValues { .text($0) }
            }
            .means("How long the upstream of this route may take, instead of limits.response_timeout.")
        $0(
            "allow",
            default: "everything",
            example: "- {methods: [GET, HEAD], path: /**}\n- {methods: [POST], path: /files/*/content}"
        )
        .covers {
            var rules: [any CanonicalValue] = [$0.allow.map(\.methods), $0.allow.map(\.path.description)]
            if $0.allow.contains(where: { $0.tools != nil }) { rules.append($0.allow.map { $0.tools?.description }) }
            if $0.allow.contains(where: \.needsApproval) {
                rules.append($0.allow.map { $0.needsApproval ? "approve" : "" })
            }
            return rules
        }
        .shows("allow", texts: Allow.texts) { $0.allow.isEmpty ? nil : .list($0.allow.map(\.shown)) }
        .means("The only methods, paths and MCP tools that may be requested. Any other request gets 403.")
        // It only says which upstreams are accepted.
        $0("allow_plaintext", default: "false", example: "true")
            .covers { _ in [] }
            .means("Accepts an http upstream that is not on this machine. Everything is then sent unencrypted.")
        $0("tls", example: "ca: corp-ca.pem\nserver_name: api.internal")
            .covers {
                [
                    $0.tls.caPath, $0.tls.serverName, $0.tls.certificatePath, $0.tls.privateKey,
                    $0.tls.pins.map(\.description),
                ]
            }
            .shows("tls_ca", as: "tls.ca") { $0.tls.caPath.map { .text($0) } }
            .shows("tls_server_name", as: "tls.server_name") { $0.tls.serverName.map { .text($0) } }
            .shows("tls_certificate", as: "tls.certificate") { $0.tls.certificatePath.map { .text($0) } }
            .shows("pins", as: "tls.pin") { $0.tls.pins.isEmpty ? nil : .texts($0.tls.pins.map(\.description)) }
            .means("How the upstream's certificate is checked, and the client certificate for it.")
        $0("proxy", default: "defaults.proxy", type: ProxyDecoder.type, example: ProxyDecoder.example)
            .covers { [$0.proxy?.origin, $0.proxy?.login, $0.proxy?.credential, $0.proxy?.caPath] }
            .shows("proxy") { $0.proxy.map { .text($0.description) } }
            .means(
                "The proxy through which the upstream is reached. environment: the one of HTTPS_PROXY, HTTP_PROXY and "
                    + "NO_PROXY."
            )
        $0("clients", default: "all", example: "[laptop, ci]")
            .covers { [$0.clients] }
            .shows("clients") { $0.clients.map { .texts($0) } }
            .means("The clients of access.clients that may use the route.")
        $0("authz", default: "[]", type: "list of engines", example: "[edge]")
            .covers { [$0.authz] }
            .shows("authz") { $0.authz.isEmpty ? nil : .texts($0.authz) }
            .means("The engines of listeners.authz that may get the credential of the route.")
        $0("allow_origins", default: "those of access.allow_origins", example: "[https://app.example.com]")
            .covers { [$0.allowedOrigins] }
            .shows("allow_origins") { $0.allowedOrigins.map { .texts($0) } }
            .means("The origins of web pages that may call the route from a browser (CORS).")
        $0("whoami", type: "a path, or a mapping", example: "path: /user\nshows: /login")
            .covers { [$0.whoami?.method.rawValue, $0.whoami?.path, $0.whoami?.shows?.text] }
            .means(
                "A request that changes nothing and shows whose credential it is. doctor, add and check --acquire send it."
            )
    }
}

extension RoutePlan.Headers {
    /// Without the values of the fields, which may be secrets; nil if nothing is set.
    fileprivate var shown: [String: ShownValue]? {
        guard self != RoutePlan.Headers() else { return nil }
        var shown: [String: ShownValue] = ["set": .texts(set.map(\.name)), "remove": .texts(remove)]
        if forwarded != .standard { shown["forwarded"] = .text(forwarded.rawValue) }
        return shown
    }
}

/// What the plan shows of `allow`.
extension RoutePlan.Allow {
    fileprivate var shown: ShownValue {
        var shown: [String: ShownValue] = ["methods": .texts(methods), "path": .text(path.description)]
        if let tools {
            shown["tools"] = .texts(tools.tools.map(\.text))
            shown["mcp_methods"] = .texts(tools.methods.map(\.text))
            shown["tools_from"] = .text(tools.source.rawValue)
        }
        if needsApproval { shown["approve"] = .flag(true) }
        return .mapping(shown)
    }

    /// A line for each rule, made from what ``shown`` returned.
    fileprivate static func texts(_ rules: ShownValue) -> [String] {
        guard case .list(let rules) = rules else { return [] }
        return rules.map { rule in
            guard case .mapping(let values) = rule, case .list(let methods)? = values["methods"] else { return "" }
            let names = methods.isEmpty ? "any method" : methods.map(\.text).joined(separator: ", ")
            return "\(names) \(values["path"]?.text ?? "")" + calls(values)
                + (values["approve"] == .flag(true) ? ", approve" : "")
        }
    }

    /// The description of its ``tools``, made from what ``shown`` returned.
    private static func calls(_ values: [String: ShownValue]) -> String {
        func names(_ key: String) -> [ToolRule.NamePattern] {
            guard case .list(let names)? = values[key] else { return [] }
            return names.compactMap { ToolRule.NamePattern($0.text) }
        }
        guard let source = values["tools_from"].flatMap({ ToolRule.Source(rawValue: $0.text) }) else { return "" }
        let rule = ToolRule(tools: names("tools"), methods: names("mcp_methods"), source: source)
        return ", \(rule.description)"
    }
}

extension Limits {
    /// How long the upstream of a route with these timeouts may take to begin its response.
    package func responseTimeout(of route: RoutePlan.Timeouts) -> Duration { route.response ?? responseTimeout }

    /// How long that upstream may pause within a response or a tunnel.
    package func responsePause(of route: RoutePlan.Timeouts) -> Duration { route.idle ?? responseTimeout }
}

/// What follows from several keys together.
extension RoutePlan {
    /// Whether the client's own `Authorization` goes upstream.
    var forwardsAuthorization: Bool {
        credential == nil && !headers.remove.contains { FieldSyntax.slot($0) == "authorization" }
    }

    /// Whether only its place in the file differs, and the number of its credential, which has an identity of its own.
    func isSame(as other: RoutePlan) -> Bool {
        var other = other
        (other.span, other.credential) = (span, credential)
        return self == other && (credential == nil) == (other.credential == nil)
    }

    /// What requests that name the upstream begin with.
    package var upstreamPlace: String { "\(upstream)\(upstreamMatchPath)" }

    /// Whether links are rewritten in an exchange whose request found the route in that way.
    ///
    /// To a client that names the upstream itself its links are right.
    func rewritesLinks(_ match: RouteTable.Match) -> Bool {
        switch match {
        case .path: rewritesLinks ?? true
        case .host: rewritesLinks ?? false
        case .upstream, .unrouted: false
        }
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
    func drops(_ kind: FieldKind) -> Bool { self == .drop && (kind == .cookie || kind == .setCookie) }

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

    var dropsTheClients: Bool { self == .remove || self == .replace }
    var addsOurs: Bool { self == .replace || self == .append }

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
