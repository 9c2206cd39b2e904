import GatewayConfiguration
package import GatewayEvents
package import GatewayHTTP
package import GatewayProxy
package import GatewayTokens

/// What the configuration says, checked and complete: immutable, comparable, printable without secrets.
///
/// Its summary, and the commands that check certificates and try credentials, extend it in their own files.
package struct Plan: Sendable {
    package var stateDirectory: String
    var workers: WorkerCount
    /// Answers carry `Proxy-Status` (RFC 9209): the next hop and what it answered, or why it could not.
    var sendsProxyStatus = Self.sendsProxyStatusByDefault
    /// The field that names each request in its answer; nil sends none.
    var requestIDHeader: String? = RequestIDHeader.standard
    package var listeners: [ListenerPlan]
    /// Where other proxies ask.
    package var authz: [ListenerPlan] = []
    package var admin: AdminPlan
    package var access: AccessPlan
    package var audit: AuditPlan
    package var tokens: TokenPlan
    package var limits: Limits
    /// nil: nothing is exported.
    var telemetry: TelemetryPlan?
    /// Signs the certificates for intercepted hosts.
    var localAuthority = LocalAuthorityPlan()
    /// `defaults.proxy`, which tunnels to servers without a route go through as well; nil for none.
    package var proxy: ProxyRule?
    /// Named credentials first, in file order, then those written inside routes (named `routes.<route>`) and those that
    /// a route switched to another subject (`box-service[user:42]`). A weaker token that is vended stands behind the named
    /// ones (`box-service[vend]`).
    package var credentials: [CredentialPlan]
    package var routes: [RoutePlan]

    enum WorkerCount: Hashable, Sendable {
        /// One event-loop thread per core.
        case auto
        case exactly(Int)

        /// As the configuration spells it.
        var text: String { if case .exactly(let count) = self { String(count) } else { "auto" } }
    }

    static let sendsProxyStatusByDefault = true

    /// The files with certificates that listeners and routes name; the plan holds their paths alone.
    var certificatePaths: [String] {
        ((listeners + authz).map(\.tls) + [admin.tls]).compactMap(\.self)
            .flatMap { [$0.certificatePath, $0.clientCAPath] }.compactMap(\.self)
            + routes.flatMap { [$0.tls.caPath, $0.tls.certificatePath, $0.proxy?.caPath] }.compactMap(\.self)
            + (proxy?.parents ?? []).compactMap(\.caPath)
    }

    /// Whether a connection to there would reach a listener of this gateway, as far as the configuration says.
    func listens(at origin: Origin) -> Bool {
        (listeners + authz).contains { listener in
            let port: Int? = if case .tcp(_, let port) = listener.address { port } else { nil }
            return listener.address.isMeant(by: origin, port: port) || listener.publicURL?.origin == origin
        }
    }
}

/// Which connections the gateway intercepts.
extension Plan {
    /// What CONNECT may do, by the listener's address. If listeners that ask for any free port differ, all of them refuse.
    package var connect: [ListenerPlan.Address: ConnectPlan] {
        Dictionary(listeners.map { ($0.address, $0.connect) }) { $0 == $1 ? $0 : ConnectPlan() }
    }

    /// The hosts in whose place the gateway answers: those of upstreams with TLS, where a listener intercepts.
    package var interceptedHosts: [String] {
        guard hasInterceptor else { return [] }
        return Set(routes.map(\.upstream).filter { $0.scheme == .https }.map(\.host)).sorted()
    }

    /// Whether there are ``interceptedHosts``.
    var interceptsHosts: Bool { hasInterceptor && routes.contains { $0.upstream.scheme == .https } }

    private var hasInterceptor: Bool { listeners.contains { $0.intercepts || $0.usesLocalAuthority } }
}

extension Plan {
    /// The plan of a gateway that serves one program (`exec --ephemeral`): the routes and credentials of this plan, on a loopback
    /// port that is free, with all its files in `folder`.
    ///
    /// Tokens are kept in memory. A second gateway that spent the refresh tokens of the store would end its logins.
    package func ephemeral(in folder: String) -> Plan {
        var plan = self
        let span = listeners.first?.span ?? SourceSpan(file: 0, line: 1, column: 1)
        // The program also asks servers without a route. Where no listener says which of them pass, public ones do.
        let connect = listeners.map(\.connect).first { $0.unrouted == .tunnel } ?? ConnectPlan(unrouted: .tunnel)
        let loopback = ListenerPlan.Address.tcp(host: "127.0.0.1", port: 0)
        plan.stateDirectory = folder
        plan.listeners = [ListenerPlan(address: loopback, intercepts: true, connect: connect, span: span)]
        plan.authz = []
        let socket = "\(folder)/admin.sock"
        let isShort = socket.utf8.count <= ListenerPlan.Address.maximumSocketPath
        plan.admin = AdminPlan(
            address: isShort ? .unix(path: socket, allowedUsers: []) : loopback,
            requiresToken: true
        )
        plan.audit.path = "\(folder)/audit.sqlite"
        plan.audit.anchor = nil
        plan.audit.store = .sqlite
        plan.tokens = TokenPlan(
            store: .memory,
            path: "\(folder)/tokens.sqlite",
            key: .file(path: "\(folder)/token.key")
        )
        // The program has ended by then: what it has left behind is not worth a long wait.
        plan.limits.drain = .seconds(1)
        return plan
    }
}
