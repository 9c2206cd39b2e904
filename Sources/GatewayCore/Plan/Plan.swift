/// What the configuration says, checked and complete: immutable, comparable, printable without secrets.
package struct Plan: Sendable {
    package var stateDirectory: String
    package var workers: WorkerCount
    /// Answers carry `Proxy-Status` (RFC 9209): the next hop and what it answered, or why it could not.
    package var sendsProxyStatus: Bool
    /// The field that names each request in its answer; nil sends none.
    package var requestIDHeader: String?
    package var listeners: [ListenerPlan]
    /// Where other proxies ask.
    package var authz: [ListenerPlan] = []
    package var admin: AdminPlan
    package var access: AccessPlan
    package var audit: AuditPlan
    package var tokens: TokenPlan
    package var limits: Limits
    /// nil: nothing is exported.
    package var telemetry: TelemetryPlan?
    /// Of the certificates for intercepted hosts.
    package var localAuthority = LocalAuthorityPlan()
    /// Named credentials first, in file order, then those written inside routes (named `routes.<route>`) and those that
    /// a route switched to another subject (`box-service[user:42]`). A weaker token that is vended stands behind the named
    /// ones (`box-service[vend]`).
    package var credentials: [CredentialPlan]
    package var routes: [RoutePlan]

    package enum WorkerCount: Hashable, Sendable {
        /// One event-loop thread per core.
        case auto
        case exactly(Int)
    }

    package init(
        stateDirectory: String,
        workers: WorkerCount,
        sendsProxyStatus: Bool = true,
        requestIDHeader: String? = "Gateway-Request-Id",
        listeners: [ListenerPlan],
        admin: AdminPlan,
        access: AccessPlan,
        audit: AuditPlan,
        tokens: TokenPlan,
        limits: Limits,
        credentials: [CredentialPlan],
        routes: [RoutePlan]
    ) {
        self.stateDirectory = stateDirectory
        self.workers = workers
        self.sendsProxyStatus = sendsProxyStatus
        self.requestIDHeader = requestIDHeader
        self.listeners = listeners
        self.admin = admin
        self.access = access
        self.audit = audit
        self.tokens = tokens
        self.limits = limits
        self.credentials = credentials
        self.routes = routes
    }

    /// The files with certificates that listeners and routes name; the plan holds their paths alone.
    package var certificatePaths: [String] {
        ((listeners + authz).map(\.tls) + [admin.tls]).compactMap(\.self)
            .flatMap { [$0.certificatePath, $0.clientCAPath] }.compactMap(\.self)
            + routes.flatMap { [$0.tls.caPath, $0.tls.certificatePath] }.compactMap(\.self)
    }
}

package struct ListenerPlan: Hashable, Sendable {
    package enum Address: Hashable, Sendable {
        case tcp(host: String, port: Int)
        /// Created with mode 0600. Only these peer uids may connect besides our own.
        case unix(path: String, allowedUsers: [UInt32])

        /// Bytes that the system takes as the path of a socket.
        package static let maximumSocketPath = 103

        /// How many sockets it takes at the most.
        package var socketCount: Int { if case .tcp(let host, _) = self { Self.addresses(of: host).count } else { 1 } }

        /// The hosts to bind for `host`: `localhost` has an address of each family. A resolver would choose one of them, and clients may
        /// choose the other.
        package static func addresses(of host: String) -> [String] {
            host == "localhost" ? ["127.0.0.1", "::1"] : [host]
        }

        /// Hosts that stand for all addresses of the machine.
        package static let anyHosts: Set<String> = ["0.0.0.0", "::"]

        /// Whether a URL with this host and port leads here.
        ///
        /// - Parameter bound: The port that the system gave.
        package func isMeant(by origin: Origin, port bound: Int?) -> Bool {
            guard case .tcp(let host, _) = self, origin.port == bound else { return false }
            if origin.host == host.lowercased() { return true }
            let isOwn = origin.host == "localhost" || origin.isLoopbackAddress
            guard !Self.anyHosts.contains(host) else { return isOwn || origin.isAddress }
            return isOwn && Origin(scheme: .http, host: host, port: 80).isLoopback
        }

        /// Whether it stands for all addresses, and the other one for all of IPv4 at the same port: it is left with those of IPv6.
        package func isForIPv6(beside other: Address) -> Bool {
            guard case (.tcp("::", let port), .tcp("0.0.0.0", let otherPort)) = (self, other) else { return false }
            return port != 0 && port == otherPort
        }

        /// Whether both stand for all addresses of a family at one port, where the system may bind the one only after the other is closed.
        package func mayCollide(with other: Address) -> Bool {
            guard case (.tcp(let host, let port), .tcp(let otherHost, let otherPort)) = (self, other), port != 0 else {
                return false
            }
            return port == otherPort && Self.anyHosts.isSuperset(of: [host, otherHost])
        }
    }

    package struct TLS: Hashable, Sendable {
        package var certificatePath: String
        package var privateKey: Secret
        /// PEM of the authorities that client certificates must come from; nil asks for none.
        package var clientCAPath: String?

        package init(certificatePath: String, privateKey: Secret, clientCAPath: String?) {
            self.certificatePath = certificatePath
            self.privateKey = privateKey
            self.clientCAPath = clientCAPath
        }
    }

    package var address: Address
    package var tls: TLS?
    /// Takes CONNECT for hosts that routes lead to, with certificates of the local authority.
    package var intercepts: Bool
    /// Where clients see it, behind a proxy that ends their TLS. nil: where `Host` says.
    package var publicURL: GatewayURL?
    package var connect: ConnectPlan
    /// Answers in the place of the servers that TLS clients name, with certificates of the local authority. ``tls`` is nil.
    package var usesLocalAuthority = false
    /// The proxy that asks here; nil where clients send requests.
    package var engine: EnginePlan?
    package var span: SourceSpan

    package init(
        address: Address,
        tls: TLS? = nil,
        intercepts: Bool = false,
        publicURL: GatewayURL? = nil,
        connect: ConnectPlan = ConnectPlan(),
        span: SourceSpan
    ) {
        self.address = address
        self.tls = tls
        self.intercepts = intercepts
        self.publicURL = publicURL
        self.connect = connect
        self.span = span
    }
}

package struct CredentialPlan: Sendable {
    package var name: String
    package var strategyKind: String
    package var strategy: any AuthStrategy
    package var policy: RenewalPolicy
    /// The index into ``Plan/credentials`` of the one whose token it is made from.
    package var parent: Int?
    /// When the secret that it is made from ends, as far as the configuration says.
    package var expires: UnixTime?
    /// Where the secret comes from that it sends as it is; nil for one with a token.
    package var secretOrigin: SecretOrigin?
    /// What the configuration says of it, word for word: equal for a credential that a reload leaves as it was.
    package var definition: [Secret]
    /// nil: the token is for routes alone.
    package var vend: VendPlan?
    package var span: SourceSpan

    package init(
        name: String,
        strategyKind: String,
        strategy: any AuthStrategy,
        policy: RenewalPolicy,
        definition: [Secret] = [],
        span: SourceSpan
    ) {
        self.definition = definition
        self.name = name
        self.strategyKind = strategyKind
        self.strategy = strategy
        self.policy = policy
        self.span = span
    }
}

extension ListenerPlan {
    package var speaksTLS: Bool { tls != nil || usesLocalAuthority }
}

extension Plan {
    /// By the listener's address. Of listeners that ask for any free port, and differ, all refuse.
    package var connect: [ListenerPlan.Address: ConnectPlan] {
        Dictionary(listeners.map { ($0.address, $0.connect) }) { $0 == $1 ? $0 : ConnectPlan() }
    }

    /// The hosts in whose place the gateway answers: those of upstreams with TLS, where a listener intercepts.
    package var interceptedHosts: [String] {
        guard listeners.contains(where: { $0.intercepts || $0.usesLocalAuthority }) else { return [] }
        return Set(routes.map(\.upstream).filter { $0.scheme == .https }.map(\.host)).sorted()
    }
}
