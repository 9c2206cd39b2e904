package import GatewayConfiguration
import GatewayHTTP

/// Reads `listeners`: where the gateway can be reached.
package enum ListenerDecoder {
    package struct Listeners {
        package var proxy: [ListenerPlan]
        package var authz: [ListenerPlan]
        package var admin: AdminPlan
    }

    private static let keys = Keys {
        $0(
            "proxy",
            default: "[{address: 127.0.0.1:8080}]",
            example: "- address: 127.0.0.1:8080\n- unix: ./state/proxy.sock"
        )
        .means("Where clients send their requests. An address off loopback needs access.clients.")
        $0("admin", default: "{address: 127.0.0.1:8081}", example: "unix: ./state/admin.sock\nallow_users: [operator]")
            .means(
                "Where commands and the status page reach the gateway. Other machines can reach it "
                    + "only with tls and users."
            )
    }

    /// - Parameter span: Where to put a listener that the configuration does not name.
    package static func decode(_ fields: ConfigFields?, at span: SourceSpan, access: AccessPlan) -> Listeners {
        var proxy = [ListenerPlan.standard(at: span)]
        var admin = AdminDecoder.keys.defaults
        guard let fields else { return Listeners(proxy: proxy, authz: [], admin: admin) }
        fields.explain(keys)
        if let elements = fields.elements("proxy") {
            proxy = elements.compactMap { node, path in
                ConfigFields(node, path: path, context: fields.context, example: fields.example(of: "proxy"))
                    .flatMap { listener($0, access) }
            }
            if elements.isEmpty { fields.error("proxy", "names no listener") }
        }
        let authz = EngineDecoder.decode(fields)
        if let own = fields.fields("admin") {
            if let plan = AdminDecoder.decode(own) { admin = plan }
            own.refuseUnknownKeys()
        }
        refuseDuplicates(proxy, authz, admin, fields)
        fields.refuseUnknownKeys()
        return Listeners(proxy: proxy, authz: authz, admin: admin)
    }

    private static func listener(_ fields: ConfigFields, _ access: AccessPlan) -> ListenerPlan? {
        defer { fields.refuseUnknownKeys() }
        var plan = ListenerPlan.keys.defaults
        ListenerPlan.keys.read(fields, into: &plan)
        if let own = fields.fields("connect") { plan.connect = connect(own, intercepts: plan.intercepts) }
        plan.publicURL = publicURL(fields)
        switch (fields.has("address"), fields.has("unix")) {
        case (true, false):
            let tls = fields.fields("tls").flatMap(self.tls)
            if fields.has("allow_users") { fields.error("allow_users", "is for unix sockets only") }
            guard let (host, port) = address(fields), let span = fields.node("address")?.span else { return nil }
            if !isLoopback(host), access.clients.isEmpty {
                let advice = "configure access.clients, or listen on 127.0.0.1"
                fields.error("address", "reachable from other machines, but no client is configured; \(advice)")
            }
            if !isLoopback(host), access.requireClient == .false {
                fields.warning("address", "reachable from other machines, and require_client is false")
            }
            if !isLoopback(host), !fields.has("tls") {
                let advice = "add tls, or listen on 127.0.0.1"
                fields.warning(
                    "address",
                    "reachable from other machines without TLS: tokens and bodies can be read in transit; \(advice)"
                )
            }
            (plan.address, plan.tls, plan.span) = (.tcp(host: host, port: port), tls, span)
            plan.usesLocalAuthority = fields.fields("tls")?.has("ca") ?? false
            if plan.usesLocalAuthority, plan.intercepts {
                fields.error("intercept", "is for CONNECT, which a listener with \"tls: {ca: local}\" does not accept")
            }
            return plan
        case (false, true):
            if fields.has("tls") { fields.error("tls", "is for addresses only, not for unix sockets") }
            guard let place = unix(fields), let span = fields.node("unix")?.span else { return nil }
            (plan.address, plan.span) = (place, span)
            return plan
        case (false, false) where !fields.unknownKeys.filter({ $0 != "tls" && $0 != "allow_users" }).isEmpty:
            fields.know("tls", "allow_users")
            return nil
        default:
            fields.know("tls", "allow_users")
            fields.error("a listener has exactly one of address and unix")
            return nil
        }
    }

    private static func publicURL(_ fields: ConfigFields) -> GatewayURL? {
        guard let text = fields.string("public_url") else { return nil }
        guard !text.contains("@") else {
            fields.error("public_url", "must not contain a user name or password")
            return nil
        }
        return fields.usable("public_url", try UpstreamURL(text)).map {
            GatewayURL(origin: $0.origin, path: Array($0.path.utf8))
        }
    }

    // MARK: Servers without a route

    static let connectKeys = Keys(ConnectPlan()) {
        $0("unrouted", \.unrouted, .choice, example: "tunnel")
            .means(
                "tunnel passes requests for hosts without a route on unchanged: the bytes of a CONNECT, and "
                    + "plain requests. No credential is added. refuse answers with an error that says what to do."
            )
        $0(
            "allow",
            \.allow,
            .destinations,
            type: "list of hosts, addresses and networks",
            example: "[\"*.example.com\", intranet.example.com, 10.1.0.0/16]"
        )
        .means(
            "The servers that may be reached: hosts, names below one (*.NAME), addresses and networks. If "
                + "empty, every server at a public address. Other addresses need a host, address or network here; "
                + "*.NAME is not enough."
        )
        $0("ports", \.ports, .ports, type: "list of ports", example: "[443, 8443]")
            .means("The ports that may be reached. Plain requests may also use port 80.")
    }

    /// Reads `connect` of a listener: servers that no route leads to.
    private static func connect(_ fields: ConfigFields, intercepts: Bool) -> ConnectPlan {
        defer { fields.refuseUnknownKeys() }
        var plan = connectKeys.defaults
        connectKeys.read(fields, into: &plan)
        fields.refuseNothing(behind: "allow", hint: "to allow every public server")
        switch plan.unrouted {
        case .tunnel where !intercepts:
            fields.error(
                "unrouted",
                "tunnel needs \"intercept: true\" on the same listener: without it CONNECT is refused"
            )
        case .refuse where fields.has("allow") || fields.has("ports"):
            fields.warning("unrouted", "allow and ports have an effect only with \"unrouted: tunnel\"")
        default: break
        }
        return plan
    }

    // MARK: TLS

    private static let tlsKeys = Keys {
        $0("certificate", example: "cert.pem")
            .means("The file with the server's certificate in PEM, followed by those of its issuers.")
        $0("private_key", example: "{file: key.pem}")
            .means("The key of the certificate, in PEM.")
        $0("ca", example: "local")
            .means(
                "local, instead of a certificate: answers for the hosts of routes, by the name in the TLS "
                    + "hello (SNI), with certificates of the local certificate authority. For clients whose DNS "
                    + "or hosts file points here."
            )
        $0("client_ca", example: "clients-ca.pem")
            .means(
                "The file with the certificate authorities that client certificates must come from. Without "
                    + "it, no client certificate is requested."
            )
    }

    static func tls(_ fields: ConfigFields) -> ListenerPlan.TLS? {
        fields.explain(tlsKeys)
        let usesLocalAuthority = fields.word("ca", of: ["local"]) != nil || fields.has("ca")
        let certificate = fields.filePath("certificate")
        let key = fields.has("private_key") ? fields.requiredSecretText("private_key") : nil
        fields.refuseNothing(behind: "client_ca", hint: "to ask clients for no certificate")
        let clientCA = fields.filePath("client_ca")
        for name in ["certificate", "private_key", "client_ca"] where usesLocalAuthority && fields.has(name) {
            fields.error(name, "cannot be combined with \"ca: local\", which makes the certificates")
        }
        if !usesLocalAuthority {
            // The value of a misspelt key may be the secret.
            if !fields.has("private_key") { fields.hidesUnknownValues = true }
            for name in ["certificate", "private_key"] where !fields.has(name) { fields.missing(name, orAnother: true) }
        }
        fields.refuseUnknownKeys()
        guard !usesLocalAuthority, let certificate, let key else { return nil }
        return ListenerPlan.TLS(certificatePath: certificate, privateKey: key, clientCAPath: clientCA)
    }

    // MARK: Addresses

    static func unix(_ fields: ConfigFields) -> ListenerPlan.Address? {
        let users = users(fields)
        guard let path = fields.filePath("unix") else { return nil }
        let maximum = ListenerPlan.Address.maximumSocketPath
        guard path.utf8.count <= maximum else {
            fields.error("unix", "the path of a socket has at most \(maximum) bytes; this one has \(path.utf8.count)")
            return nil
        }
        return .unix(path: path, allowedUsers: users)
    }

    static func users(_ fields: ConfigFields) -> [UInt32] {
        var users: [UInt32] = []
        for (node, path) in fields.elements("allow_users") ?? [] {
            guard case .scalar(let scalar) = node.content, !scalar.isNull else {
                fields.context.error("expected a user, found \(node.kindName)", at: node.span, path: path)
                continue
            }
            guard let user = UInt32(scalar.text) ?? fields.context.secrets.userID(ofName: scalar.text) else {
                fields.context.error("no user \(scalar.shown) on this machine", at: node.span, path: path)
                continue
            }
            users.append(user)
        }
        return users
    }

    static func address(_ fields: ConfigFields) -> (host: String, port: Int)? {
        guard let scalar = fields.scalar("address")?.scalar else { return nil }
        let text = scalar.text
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65535).contains(port), let origin = Origin(scheme: .http, authority: String(text[..<colon]))
        else {
            fields.error("address", "expected host:port such as 127.0.0.1:8080, found \(scalar.shown)")
            return nil
        }
        return (origin.host, port)
    }

    static func isLoopback(_ host: String) -> Bool { Origin(scheme: .http, host: host, port: 80).isLoopback }

    /// Port 0 asks for any free port, so it may stand more than once.
    private static func refuseDuplicates(
        _ proxy: [ListenerPlan],
        _ authz: [ListenerPlan],
        _ admin: AdminPlan,
        _ fields: ConfigFields
    ) {
        let all = proxy + authz
        for (index, listener) in all.enumerated() {
            if case .tcp(_, 0) = listener.address { continue }
            guard let first = all[..<index].first(where: { $0.address.isPlace(of: listener.address) }) else {
                continue
            }
            let related = ConfigDiagnostic.Related("first used here", at: first.span)
            fields.context.error(
                "two listeners have this address",
                at: listener.span,
                path: index < proxy.count
                    ? fields.path.appending("proxy").appending(index)
                    : fields.path.appending("authz").appending(index - proxy.count),
                related: related
            )
        }
        if case .tcp(_, 0) = admin.address { return }
        guard let twin = all.first(where: { $0.address.isPlace(of: admin.address) }) else { return }
        let path = fields.path.appending(twin.engine == nil ? "proxy" : "authz")
        fields.context.error("the admin listener has this address too", at: twin.span, path: path)
    }
}

/// Whether other machines reach an address, and whether two addresses collide.
extension ListenerPlan.Address {
    /// From other machines.
    var isReachable: Bool {
        switch self {
        case .tcp(let host, let port): !Origin(scheme: .http, host: host, port: port).isLoopback
        case .unix: false
        }
    }

    /// Whether only one of both can be bound.
    fileprivate func isPlace(of other: ListenerPlan.Address) -> Bool {
        switch (self, other) {
        case (.unix(let path, _), .unix(let otherPath, _)): path == otherPath
        case (.tcp(let host, let port), .tcp(let otherHost, let otherPort)):
            port == otherPort && !Set(Self.addresses(of: host)).isDisjoint(with: Self.addresses(of: otherHost))
        default: false
        }
    }
}

/// Servers, as `connect.allow` lists them.
extension KeyKind where Value == [ConnectPlan.Destination] {
    fileprivate static var destinations: Self {
        KeyKind { fields, key in
            fields.elements(key)?.compactMap { destination($0.node, $0.path, fields.context) }
        } text: {
            "[\($0.map(\.description).joined(separator: ", "))]"
        }
    }

    private static func destination(
        _ node: ConfigNode,
        _ path: ConfigPath,
        _ context: ConfigContext
    ) -> ConnectPlan.Destination? {
        if case .scalar(let scalar) = node.content, let destination = ConnectPlan.Destination(scalar.text) {
            return destination
        }
        let advice =
            "expected a host without a port (api.example.com, *.example.com), an address or a network (10.0.0.0/8)"
        context.error(advice, at: node.span, path: path)
        return nil
    }
}

/// Ports, as `connect.ports` lists them.
extension KeyKind where Value == [Int] {
    fileprivate static var ports: Self {
        KeyKind { fields, key in
            guard let elements = fields.elements(key) else { return nil }
            if elements.isEmpty { fields.error(key, "names no port") }
            return elements.compactMap { port($0.node, $0.path, fields.context) }
        } text: {
            "[\($0.map { String($0) }.joined(separator: ", "))]"
        }
    }

    private static func port(_ node: ConfigNode, _ path: ConfigPath, _ context: ConfigContext) -> Int? {
        if case .scalar(let scalar) = node.content, let port = Int(scalar.text), (1...65_535).contains(port) {
            return port
        }
        context.error("expected a port between 1 and 65535", at: node.span, path: path)
        return nil
    }
}
