/// Where the gateway can be reached: by clients (`listeners.proxy`) or by another proxy (`listeners.authz`).
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

    package var speaksTLS: Bool { tls != nil || usesLocalAuthority }

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

/// What a listener does with servers that no route leads to.
package struct ConnectPlan: Hashable, Sendable {
    package enum Unrouted: String, CaseIterable, Sendable {
        case refuse
        /// Bytes of a CONNECT pass as they are, and plain requests pass, too. No credential is added.
        case tunnel
    }

    /// What metrics and the access log call the route of requests to servers without one.
    package static let unroutedName = "(unrouted)"

    /// Servers that clients may reach.
    package enum Destination: Hashable, Sendable, CustomStringConvertible {
        /// At whatever addresses it has.
        case host(String)
        /// Every name below that one, at public addresses. Begins with a dot; empty for all names.
        case namesBelow(String)
        case network(IPNetwork)

        /// `api.example.com`, `*.example.com`, `*`, `192.0.2.7`, `10.0.0.0/8` or `fd00::/8`.
        package init?(_ text: String) {
            let text = text.lowercased()
            if let network = IPNetwork(text) {
                self = .network(network)
            } else if let address = IPAddress(text) {
                self = .network(IPNetwork(address))
            } else if text == "*" {
                self = .namesBelow("")
            } else {
                let name = text.hasPrefix("*.") ? String(text.dropFirst(2)) : text
                guard Self.isName(name) else { return nil }
                self = name == text ? .host(name) : .namesBelow(".\(name)")
            }
        }

        /// What systems read as a number is no name: `2130706433` and `0x7f.1` are 127.0.0.1.
        private static func isName(_ text: String) -> Bool {
            guard !text.contains(":"), !text.contains("["), Origin(scheme: .https, authority: text) != nil,
                let last = text.split(separator: ".", omittingEmptySubsequences: false).last
            else { return false }
            return last.utf8.contains { !$0.isDigit } && !last.hasPrefix("0x")
        }

        package var description: String {
            switch self {
            case .host(let name): name
            case .namesBelow(let suffix): "*\(suffix)"
            case .network(let network):
                network.isAddress ? network.address.description : "\(network.address)/\(network.prefix)"
            }
        }
    }

    package var unrouted: Unrouted
    /// Empty: every server at public addresses.
    package var allow: [Destination]
    package var ports: [Int]

    package init(unrouted: Unrouted = .refuse, allow: [Destination] = [], ports: [Int] = [443]) {
        self.unrouted = unrouted
        self.allow = allow
        self.ports = ports
    }
}

/// Another proxy that asks the gateway which fields a request needs, and how it asks (`listeners.authz`).
package struct EnginePlan: Hashable, Sendable {
    /// How an engine says which request it asks about.
    package enum Contract: String, CaseIterable, Sendable {
        /// The request line and `Host` are those of the request itself (Envoy's `ext_authz` over HTTP).
        case envoy
        /// `X-Original-Method`, `X-Original-URI`, `X-Original-Host` and `X-Original-Proto` (nginx `auth_request`).
        case nginx
        /// `X-Forwarded-Method`, `X-Forwarded-Uri`, `X-Forwarded-Host` and `X-Forwarded-Proto` (Caddy, Traefik, HAProxy).
        case forwardAuth = "forward_auth"
    }

    /// Routes name it in `authz`.
    package var name: String
    package var contract: Contract
    /// One of these the engine sends in ``tokenField``. Empty where it proves itself in another way.
    package var tokens: [Secret]
    /// One of these names the certificate of the engine has. Empty where none is asked for.
    package var certificates: [CertificateName]
    /// Stands before the path of each request of ``Contract/envoy``. It begins with a slash, has none at its end, and may be empty.
    package var pathPrefix: String
    /// How long the engine may keep an answer; nil: not at all.
    package var cache: Duration?

    package init(
        name: String,
        contract: Contract,
        tokens: [Secret] = [],
        certificates: [CertificateName] = [],
        pathPrefix: String = "",
        cache: Duration? = nil
    ) {
        self.name = name
        self.contract = contract
        self.tokens = tokens
        self.certificates = certificates
        self.pathPrefix = pathPrefix
        self.cache = cache
    }

    /// A new one, and the one that it replaces.
    package static let maximumTokens = 2
    package static let tokenField = "X-Gw-Engine-Token"
    package static let generationField = "X-Gw-Generation"
    package static let rejectedGenerationField = "X-Gw-Rejected-Generation"
    /// Names the route to whose upstream the engine will send the request. A credential of another route would leave for the wrong
    /// server.
    package static let routeField = "X-Gw-Route"
    /// Between the gateway and its engines only: no client may send them to an upstream.
    package static let ownFields = [tokenField, generationField, rejectedGenerationField, routeField]
}
