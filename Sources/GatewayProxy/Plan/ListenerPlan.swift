package import GatewayConfiguration
package import GatewayHTTP

/// Where the gateway can be reached: by clients (`listeners.proxy`) or by another proxy (`listeners.authz`).
package struct ListenerPlan: Hashable, Sendable {
    package enum Address: Hashable, Sendable {
        case tcp(host: String, port: Int)
        /// Created with mode 0600. Only these peer uids may connect besides our own.
        case unix(path: String, allowedUsers: [UInt32])

        /// Bytes that the system takes as the path of a socket.
        package static let maximumSocketPath = 103

        /// How many sockets it takes at the most.
        var socketCount: Int { if case .tcp(let host, _) = self { Self.addresses(of: host).count } else { 1 } }

        /// The hosts to bind for `host`: `localhost` has an address of each family. A resolver would choose one of them, and clients may
        /// choose the other.
        package static func addresses(of host: String) -> [String] {
            host == "localhost" ? ["127.0.0.1", "::1"] : [host]
        }

        /// Hosts that stand for all addresses of the machine.
        static let anyHosts: Set<String> = ["0.0.0.0", "::"]

        /// Whether a URL with this host and port leads here.
        ///
        /// - Parameter bound: The port that the system gave.
        package func isMeant(by origin: Origin, port bound: Int?) -> Bool {
            guard case .tcp(let host, _) = self, origin.port == bound else { return false }
            // An address of IPv4 may stand in one of IPv6.
            let name = IPAddress(origin.host)?.description ?? origin.host
            let origin = Origin(scheme: origin.scheme, host: name, port: origin.port)
            if origin.host == host.lowercased() { return true }
            // Systems take the address of any host for their own, and some resolvers read names such as 127.1 as addresses.
            let isOwn =
                origin.isLoopback || Self.anyHosts.contains(origin.host)
                || !origin.isAddress && ConnectPlan.mayBeAddress(origin.host)
            guard !Self.anyHosts.contains(host) else { return isOwn || origin.isAddress }
            return isOwn && Origin(scheme: .http, host: host, port: 80).isLoopback
        }

        /// Whether it stands for all addresses, and the other one for all of IPv4 at the same port: it is left with those of IPv6.
        func isForIPv6(beside other: Address) -> Bool {
            guard case (.tcp("::", let port), .tcp("0.0.0.0", let otherPort)) = (self, other) else { return false }
            return port != 0 && port == otherPort
        }

        /// Whether both stand for all addresses of a family at one port, where the system may bind the one only after the other is closed.
        func mayCollide(with other: Address) -> Bool {
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
    }

    package var address: Address
    package var tls: TLS?
    /// Takes CONNECT for hosts that routes lead to, with certificates of the local CA.
    package var intercepts: Bool
    /// Where clients see it, behind a proxy that ends their TLS. nil: where `Host` says.
    package var publicURL: GatewayURL?
    package var connect: ConnectPlan
    /// Answers in place of the servers that TLS clients name, with certificates of the local CA. ``tls`` is nil.
    package var usesLocalAuthority = false
    /// The proxy that asks here; nil where clients send requests.
    package var engine: EnginePlan?
    package var span: SourceSpan

    var speaksTLS: Bool { tls != nil || usesLocalAuthority }

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
    package var tokens: [Secret] = []
    /// One of these names the certificate of the engine has. Empty where none is asked for.
    package var certificates: [CertificateName] = []
    /// Stands before the path of each request of ``Contract/envoy``. It begins with a slash, has none at its end, and may be empty.
    package var pathPrefix = ""
    /// How long the engine may keep an answer; nil: not at all.
    package var cache: Duration?

    /// A new one, and the one that it replaces.
    package static let maximumTokens = 2
    package static let tokenField = "X-Gw-Engine-Token"
    static let generationField = "X-Gw-Generation"
    static let rejectedGenerationField = "X-Gw-Rejected-Generation"
    /// Names the route to whose upstream the engine will send the request. A credential of another route would leave for the wrong
    /// server.
    static let routeField = "X-Gw-Route"
    /// Between the gateway and its engines only: no client may send them to an upstream.
    package static let ownFields = [tokenField, generationField, rejectedGenerationField, routeField]
}

// MARK: Keys

/// The keys of an address.
extension ListenerPlan.Address {
    /// Keys of every listener.
    package static let keys = Keys(ListenerPlan.Address.tcp(host: "127.0.0.1", port: 8080)) {
        $0("address", type: "host:port", example: "127.0.0.1:8080")
            .covers { [$0.name] }
            .shows("address") { $0.socket == nil ? .text($0.name) : nil }
            .means("Host and port. Port 0 takes any free port.")
        // The name above has its path.
        $0("unix", example: "./state/proxy.sock")
            .covers { _ in [] }
            .shows("unix", texts: { ["unix \($0.text)"] }) { $0.socket.map { .text($0.path) } }
            .means("The path of a unix socket, instead of an address. At most 103 bytes.")
        $0("allow_users", default: "[]", example: "[alice, \"1000\"]")
            .covers { [$0.socket?.users.map { Int($0) }] }
            .shows("allow_users", texts: { $0 == .list([]) ? [] : ["allow_users \($0.text)"] }) {
                $0.socket.map { .list($0.users.map { .number(Int($0)) }) }
            }
            .means(
                "The users of this machine that may use the unix socket, by name or number. Without it, only the gateway's own"
                    + " user may."
            )
    }

    /// nil for one of TCP.
    private var socket: (path: String, users: [UInt32])? {
        if case .unix(let path, let users) = self { (path, users) } else { nil }
    }

    /// What the listener takes from the system: `127.0.0.1:8080`, or `unix` and a path.
    package var name: String {
        switch self {
        case .tcp(let host, let port): Origin.hostAndPort(host, port)
        case .unix(let path, _): "unix \(path)"
        }
    }
}

/// The keys of a listener.
extension ListenerPlan {
    /// The listener for clients of a configuration that names none.
    static func standard(at span: SourceSpan) -> ListenerPlan {
        ListenerPlan(address: .tcp(host: "127.0.0.1", port: 8080), span: span)
    }

    /// Keys of a listener for clients. The decoder reads those without a property. The digest leaves out the engine, which has keys of
    /// its own, and the place in the file.
    package static let keys = Keys(standard(at: SourceSpan(file: 0, line: 1, column: 1))) {
        $0.include(Address.keys, \.address)
        $0("tls", example: "certificate: cert.pem\nprivate_key: {file: key.pem}")
            .covers { [$0.tls, $0.usesLocalAuthority] }
            .shows("tls", text: Self.textOfTLS) { .flag($0.speaksTLS) }
            .showsInJSON("client_certificates") { .flag($0.tls?.clientCAPath != nil) }
            .showsInJSON("uses_local_authority") { $0.usesLocalAuthority ? .flag(true) : nil }
            .means("Serves https at this address.")
        $0("intercept", \.intercepts, .flag, example: "true")
            .shows("intercepts", texts: { _ in ["intercept"] }) { $0.intercepts ? .flag(true) : nil }
            .means(
                "Accepts CONNECT for the hosts of routes, as clients with HTTPS_PROXY send it. The gateway "
                    + "terminates TLS with a certificate of the local certificate authority (authgateway ca "
                    + "show), and adds the credential to each request."
            )
        $0("connect", default: "{unrouted: refuse}", example: "unrouted: tunnel\nallow: [\"*.example.com\"]")
            .covers { [$0.connect] }
            .shows("connect", texts: ConnectPlan.texts) { $0.connect.shown }
            .means("What happens to requests for hosts without a route.")
        $0(
            "public_url",
            default: "the scheme of the listener and the Host of the request",
            type: "a URL",
            example: "https://gateway.example.com"
        )
        .covers { [$0.publicURL?.origin, $0.publicURL?.text] }
        .shows("public_url", texts: { ["public_url \($0.text)"] }) { $0.publicURL.map { .text($0.text) } }
        .means(
            "The URL under which clients reach this listener, if a proxy before it terminates TLS or "
                + "changes Host. Links of upstreams are rewritten to it."
        )
    }

    private static func textOfTLS(_ values: [String: ShownValue]) -> String? {
        guard values["tls"] == .flag(true) else { return nil }
        if values["client_certificates"] == .flag(true) { return "tls with client certificates" }
        return values["uses_local_authority"] == .flag(true) ? "tls of the local CA" : "tls"
    }
}

extension ListenerPlan.TLS: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) {
        bytes.add(certificatePath)
        bytes.add(clientCAPath)
        bytes.add(privateKey)
    }
}

extension ConnectPlan: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) { ListenerDecoder.connectKeys.add(self, to: &bytes) }
}

/// What the plan shows of `connect`.
extension ConnectPlan {
    /// nil for a listener that refuses servers without a route.
    fileprivate var shown: ShownValue? {
        guard unrouted == .tunnel else { return nil }
        return .mapping([
            "unrouted": .text(unrouted.rawValue), "allow": .texts(allow.map(\.description)),
            "ports": .list(ports.map { .number($0) }),
        ])
    }

    /// In words, made from what ``shown`` returned.
    fileprivate static func texts(_ shown: ShownValue) -> [String] {
        guard case .mapping(let values) = shown, let unrouted = values["unrouted"], let allow = values["allow"],
            let ports = values["ports"]
        else { return [] }
        let servers = allow == .list([]) ? "every public server" : allow.text
        let isOne = if case .list(let numbers) = ports { numbers.count == 1 } else { false }
        return ["\(unrouted.text) to \(servers) at \(isOne ? "port" : "ports") \(ports.text)"]
    }
}

/// The keys of a listener for an engine.
extension EnginePlan {
    /// Keys of a listener for an engine, besides ``ListenerPlan/Address/keys``. The engine's name and contract are required, so they
    /// have no default.
    package static let keys = Keys(EnginePlan(name: "", contract: .nginx)) {
        // The listener has it.
        $0("tls", example: "certificate: cert.pem\nprivate_key: {file: key.pem}")
            .covers { _ in [] }
            .means("Serves https at this address.")
        $0("engine", type: "a name", example: "edge")
            .covers { [$0.name] }
            .shows("engine") { .text($0.name) }
            .means("The name of the one proxy that asks here. Routes name it in authz.")
        $0("contract", example: "nginx")
            .covers { [$0.contract.rawValue] }
            .shows("contract") { .text($0.contract.rawValue) }
            .means(
                "How the engine says which request it asks about. nginx: X-Original-Method, X-Original-URI, X-Original-Host and"
                    + " X-Original-Proto. forward_auth (Caddy, Traefik, HAProxy): X-Forwarded-Method, -Uri, -Host and -Proto. envoy:"
                    + " by its own request line and Host."
            )
        $0("token", example: "{file: ./edge.token}")
            .covers { [$0.tokens] }
            .means(
                "The token that the engine sends in X-Gw-Engine-Token, at least 16 bytes. A list of two "
                    + "while the engine moves from one to the other."
            )
        $0("certificates", type: "list of names", example: "[edge.example.com, spiffe://example.org/edges/*]")
            .covers { [$0.certificates.map(\.description)] }
            .shows("certificates") { $0.certificates.isEmpty ? nil : .texts($0.certificates.map(\.description)) }
            .means(
                "Names, of which the engine's certificate must have one (subjectAltName): host names and "
                    + "URIs, or all URIs below one (/*). For addresses with tls.client_ca."
            )
        $0("path_prefix", default: "none", example: "/authz")
            .covers { [$0.pathPrefix] }
            .shows("path_prefix") { $0.pathPrefix.isEmpty ? nil : .text($0.pathPrefix) }
            .means(
                "The prefix that an engine with contract: envoy puts before the path of each request "
                    + "(path_prefix of ext_authz)."
            )
        $0(
            "cache",
            \.cache,
            .duration(.seconds(1) ... .seconds(3600)),
            default: "answers are not kept",
            example: "10s"
        )
        .shows("cache") { $0.cache.map { .text(ConfigUnits.text($0)) } }
        .means(
            "How long the engine may cache an answer, but never longer than the token is valid. A withdrawn "
                + "token stays in use for up to this long."
        )
    }
}
